package clouds

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// line leads to an address. All that is sent to it passes at a rate, in bits per second; 0: as fast as it can.
type line struct {
	address string
	rate    atomic.Int64
}

// begin listens for connections until the benchmark ends, and returns the address.
func (l *line) begin(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	turn := make(chan struct{}, 1) // all connections share the line
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil { // it is closed
				return
			}
			far, err := net.Dial("tcp", l.address)
			if err != nil {
				near.Close()
				continue
			}
			go l.pass(far, near, turn)
			go func() {
				io.Copy(near, far) // both ends see that it has ended
				near.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// pass has what is read from a connection sent to another.
func (l *line) pass(to, from net.Conn, turn chan struct{}) {
	defer to.Close()
	parcel := make([]byte, 16<<10)
	for {
		n, err := from.Read(parcel)
		if n > 0 {
			if rate := l.rate.Load(); rate > 0 {
				turn <- struct{}{}
				time.Sleep(time.Duration(n) * 8 * time.Second / time.Duration(rate))
				<-turn
			}
			if _, err := to.Write(parcel[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// BenchmarkNotice has a job with a checkpoint of 1 GiB, of which a twentieth has changed, leave its host. Until the checkpoint is
// in a bucket, a reclaimed machine has to live: the host stores it itself, or it passes this machine, whose line has
// 20 Mbit/s. The rest of a notice is the job's, less what passes until its signal.
func BenchmarkNotice(b *testing.B) {
	const (
		notice, signal = 120.0, 1.0 // in seconds
		mbit           = 20
	)
	var shares [2]float64
	for n, apart := range []bool{false, true} {
		u := testkit.NewBee(b)
		farm := sshfarm.Start(b, 2)
		bucket := s3server.StartElsewhere(b, net.JoinHostPort(farm.Addrs[1], "7480"), func(argv []string, log string) error {
			_, err := farm.Launch(b.Context(), emulate.Command{Host: 1, Argv: argv, Env: []string{"PATH=" + os.Getenv("PATH")}, Log: log})
			return err
		}, func(ctx context.Context, _, address string) (net.Conn, error) { return farm.Dial(ctx, address) })
		for host := range farm.Names {
			if err := farm.Apart(b.Context(), host, apart); err != nil {
				b.Fatal(err)
			}
		}
		way := &line{address: strings.TrimPrefix(bucket.Route(b), "http://")}
		u.Env = append(append(append(u.Env, farm.Env()...), bucket.Env()...), "HTTP_PROXY=http://"+way.begin(b), "BEE_SITES="+u.File("sites.yaml",
			"store: s3://"+bucket.Bucket+"/bee\nsites:\n  - {name: rack, provider: ssh, hosts: ["+farm.Names[0]+"], scratch: "+farm.Private+"}\n"))
		run := strings.TrimSpace(u.Must("run", "-d", u.File("job.yaml", beginning(b)+`volume: /data
workdir: /data
checkpoint: {grace: 20s}
run: |
  if [ -e data1 ]; then
    dd if=/dev/urandom of=data1 bs=1M count=51 2>/dev/null; say=changed
  else
    for i in $(seq 20); do dd if=/dev/urandom of=data$i bs=1M count=51 2>/dev/null; done; say=filled
  fi
  trap 'exit 85' TERM
  echo $say
  while :; do sleep 0.1; done
`)))
		printed(b, u, run, "filled")
		u.Must("move", run)
		printed(b, u, run, "changed")
		way.rate.Store(mbit * 1_000_000)
		u.Must("move", run)
		testkit.Eventually(b, 5*time.Minute, func() error {
			if at := attempts(u, run); len(at) < 3 || at[1].Transfer == 0 {
				return fmt.Errorf("the checkpoint is not safe: %+v", at)
			}
			return nil
		})
		way.rate.Store(0)
		u.Must("stop", run)
		if v := u.Await(run, 2*time.Minute); v.State != "stopped" {
			b.Errorf("got %+v", v)
		}
		took := attempts(u, run)[1].Transfer
		b.Logf("apart %v: the transfer takes %.1f s", apart, took)
		shares[n] = 1 - (signal+took)/notice
	}
	row(b, fmt.Sprintf("share of a notice of 120 s that is left to a job, less a second until its signal: checkpoint of 1 GiB, of which 5 %% changed, to a bucket by the head; the line of the submitting machine has %d Mbit/s", mbit),
		fmt.Sprintf("%.3f", shares[0]), fmt.Sprintf("through the submitting machine %.3f", shares[1]), fmt.Sprintf("%.2f", shares[0]/shares[1]))
}
