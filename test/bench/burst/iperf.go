package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

const iperfPort = 5201

// iperfServers starts a server for each client on the I/O host, and one on the far host.
func (l *lab) iperfServers(ctx context.Context) error {
	for i := range clients {
		if err := l.launch(ctx, ioHost, "iperf3", "-s", "-p", strconv.Itoa(iperfPort+i)); err != nil {
			return err
		}
	}
	return l.launch(ctx, farHost, "iperf3", "-s", "-p", strconv.Itoa(iperfPort))
}

// iperf gives the rate at which bytes arrive, in bytes per second. more are further flags.
func (l *lab) iperf(ctx context.Context, from, to, port, seconds int, more ...string) (float64, error) {
	argv := append([]string{"iperf3", "-c", l.hosts.Hosts()[to].Addr, "-p", strconv.Itoa(port), "-t", strconv.Itoa(seconds), "-O", "1", "-J"}, more...)
	// The server is not there at once, nor when the last one's end is still on its way.
	out, err := l.until(ctx, func() (string, error) { return l.on(ctx, from, argv...) })
	if err != nil {
		return 0, err
	}
	return received([]byte(out))
}

// received reads the report of iperf3.
func received(raw []byte) (float64, error) {
	var r struct {
		Error string
		End   struct {
			Received struct {
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return 0, fmt.Errorf("read the report of iperf3: %w", err)
	}
	if r.Error != "" {
		return 0, errors.New("iperf3: " + r.Error)
	}
	if r.End.Received.BitsPerSecond <= 0 {
		return 0, errors.New("iperf3 has received nothing")
	}
	return r.End.Received.BitsPerSecond / 8, nil
}

// iperfAll has all clients send to the I/O host at once, or receive from it, and gives the sum of their rates.
func (l *lab) iperfAll(ctx context.Context, seconds int, more ...string) (float64, error) {
	return atOnce(func(i int) (float64, error) {
		return l.iperf(ctx, firstClient+i, ioHost, iperfPort+i, seconds, more...)
	})
}

// atOnce does something for all clients at the same time, and adds the results.
func atOnce(do func(client int) (float64, error)) (sum float64, err error) {
	type result struct {
		value float64
		err   error
	}
	results := make(chan result, clients)
	for i := range clients {
		go func() {
			v, err := do(i)
			results <- result{v, err}
		}()
	}
	for range clients {
		r := <-results
		sum, err = sum+r.value, errors.Join(err, r.err)
	}
	return sum, err
}
