// Command burst measures burst buffers against their peers, on emulated hosts with slow links and a far
// host behind a slow line, and compares predictions of the simulator with what it measures. `make bench`
// starts it. It writes rows of a table as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/emulate"
)

// Row is one line of the table.
type Row struct{ What, Measured, Against, Ratio string }

// report writes a row at once: the whole takes long.
func report(r Row) error { return json.NewEncoder(os.Stdout).Encode(r) }

// sizes are how much is written and read.
type sizes struct {
	burst        int64 // by all clients together
	single       int64 // of one file
	local        int64 // on one host without limits
	moved        int64 // in a volume that moves
	files        int   // small ones
	each         int   // seconds that one kind of operation on them may take
	iperfSeconds int   // seconds of each of its measurements
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case emulate.HolderArg:
			os.Exit(emulate.HolderMain(os.Args[2:]))
		case toolArg:
			if err := tool(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	o := options{}
	flag.StringVar(&o.bee, "bee", "bin/bee", "the binary to measure")
	flag.StringVar(&o.image, "image", "", "an archive of an image with sh, as docker saves it")
	flag.StringVar(&o.dir, "dir", "", "an empty directory on a local disk")
	quick := flag.Bool("quick", false, "less data")
	only := flag.String("only", "", "`PARTS` to run, with commas: scenarios, buffer, line, bucket, local, moves, files")
	flag.Parse()
	s := sizes{burst: 256 << 20, single: 128 << 20, local: 512 << 20, moved: 256 << 20, files: 10_000, each: 120, iperfSeconds: 10}
	if *quick {
		s = sizes{burst: 64 << 20, single: 48 << 20, local: 128 << 20, moved: 64 << 20, files: 1000, each: 4, iperfSeconds: 3}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := measure(ctx, o, s, strings.Split(*only, ","))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "burst:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o options, s sizes, only []string) error {
	l, err := newLab(ctx, o)
	if err != nil {
		return err
	}
	defer l.close()
	m := measurement{lab: l, sizes: s}
	if err := m.limits(ctx); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{{"scenarios", m.scenarios}, {"buffer", m.buffer}, {"line", m.line}, {"bucket", m.bucket}, {"local", m.local}, {"moves", m.moves}, {"files", m.files}} {
		if only[0] != "" && !slices.Contains(only, part.name) {
			continue
		}
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}
