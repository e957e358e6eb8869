package testkit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// ReachInto copies a file to the container of a node of a run and back, reaches a port in
// it, and looks at what it uses. The job runs, and serve is a shell command by which the
// container serves the files of /tmp at PORT of its loopback.
func (b *Bee) ReachInto(id string, node int, serve string) {
	b.t.Helper()
	rank := strconv.Itoa(node)
	b.File("sent", "sent there\n")
	b.Must("cp", "sent", id+":"+rank+":/tmp/sent")
	b.Must("cp", id+":"+rank+":/tmp/sent", "returned")
	if got := b.Read("returned"); got != "sent there\n" {
		b.t.Errorf("copied to node %d and back: %q", node, got)
	}
	_, port, err := net.SplitHostPort(FreeAddress(b.t))
	if err != nil {
		b.t.Fatal(err)
	}
	b.Must("exec", "--node", rank, id, "sh", "-c", strings.ReplaceAll(serve, "PORT", port))
	b.forwarded(id, rank, port)
	var views []struct {
		Node        int
		MemoryBytes int64 `json:"memory_bytes"`
		Processes   int
		Error       *struct{ Message string }
	}
	b.JSON(&views, "stats", "--no-stream", "--json", id)
	if len(views) <= node || views[node].Node != node || views[node].Error != nil || views[node].MemoryBytes == 0 || views[node].Processes == 0 {
		b.t.Errorf("what node %d uses: %+v", node, views)
	}
}

// forwarded gets /sent by `bee forward` from a port of a run.
func (b *Bee) forwarded(id, rank, port string) {
	b.t.Helper()
	c := b.Command("forward", "--node", rank, id, "0:"+port)
	out, err := c.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	var output bytes.Buffer
	c.Stderr = &output
	if err := c.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	address, err := bufio.NewReader(out).ReadString('\n')
	go func() { ended <- c.Wait() }()
	if err == nil {
		Eventually(b.t, 30*time.Second, func() error { return get(strings.TrimSpace(address)+"/sent", "sent there\n") })
	}
	c.Process.Signal(os.Interrupt)
	if werr := <-ended; err != nil || werr != nil {
		b.t.Errorf("forward port %s of node %s: %v, %v, %s", port, rank, err, werr, output.String())
	}
}

// get wants a text at an address.
func get(address, want string) error {
	client := &http.Client{Timeout: 30 * time.Second}
	r, err := client.Get(address)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && string(body) != want {
		err = fmt.Errorf("got %q", body)
	}
	return err
}
