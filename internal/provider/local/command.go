package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/leasedir"
	"golang.org/x/sys/unix"
)

const emulateUsage = `usage: bee emulate hosts RUN                list the emulated hosts of a run
       bee emulate link  RUN HOST down|up   cut or heal a host's link
       bee emulate kill  RUN HOST           kill everything on a host, as a power cut does
       bee emulate exec  RUN HOST CMD...    run a command on a host, outside of containers
       bee emulate dial  RUN ADDR:PORT      join standard input and output to a TCP port
RUN is the id of a run on emulated hosts, or the beginning of one; HOST is a
host's number or name. Set BEE_SCRATCH where the site's scratch is not the default.
`

// EmulateMain is the entry point of `bee emulate`, with which people and tests
// try out partitions and dying hosts on the emulated hosts of a live run.
func EmulateMain(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if len(args) < 2 {
		fmt.Fprint(os.Stderr, emulateUsage)
		return 2
	}
	code, err := emulateCommand(ctx, args[0], args[1], args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bee emulate:", err)
		if r := core.Remedy(err); r != "" {
			fmt.Fprintln(os.Stderr, r)
		}
		return 1
	}
	return code
}

func emulateCommand(ctx context.Context, name, run string, args []string) (int, error) {
	c, err := openRun(ctx, run)
	if err != nil {
		return 0, err
	}
	if name == "hosts" {
		for i, h := range c.Hosts() {
			fmt.Printf("%d\t%s\t%s\n", i, h.Hostname, h.Addr)
		}
		return 0, nil
	}
	if len(args) == 0 {
		return 0, errors.New("too few arguments; see `bee emulate`")
	}
	if name == "dial" {
		return 0, c.Relay(ctx, args[0], os.Stdin, os.Stdout)
	}
	host := slices.IndexFunc(c.Hosts(), func(h emulate.Host) bool { return h.Hostname == args[0] })
	if host < 0 {
		if host, err = strconv.Atoi(args[0]); err != nil {
			return 0, fmt.Errorf("there is no host %q; see `bee emulate hosts`", args[0])
		}
	}
	rest := args[1:]
	switch {
	case name == "link" && len(rest) == 1 && (rest[0] == "up" || rest[0] == "down"):
		return 0, c.Link(ctx, host, rest[0] == "up")
	case name == "kill" && len(rest) == 0:
		return 0, c.Kill(ctx, host)
	case name == "exec" && len(rest) > 0:
		dir, _ := os.Getwd()
		exit, err := c.Run(ctx, emulate.Command{Host: host, Argv: rest, Env: os.Environ(), Dir: dir}, os.Stdin, os.Stdout, os.Stderr)
		return exit.Code, err
	}
	return 0, fmt.Errorf("cannot %s %s; see `bee emulate`", name, strings.Join(args, " "))
}

// openRun finds the emulated hosts of a run by the beginning of its id.
func openRun(ctx context.Context, run string) (*emulate.Client, error) {
	if run == "" { // which every id begins with
		return nil, &core.Error{Kind: core.Invalid, Op: "find emulated hosts of run", Err: errors.New("its id is empty"), Remedy: "`bee ps` lists the live runs."}
	}
	p := &provider{base: filepath.Join(DefaultScratch(), "bee"), s: Settings{StateDir: os.Getenv("BEE_STATE")}}
	if dir := os.Getenv("BEE_SCRATCH"); dir != "" {
		p.base = filepath.Join(dir, "bee")
	}
	if p.s.StateDir == "" {
		if home, err := os.UserHomeDir(); err == nil {
			p.s.StateDir = filepath.Join(home, ".local", "state", "bee")
		}
		if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
			p.s.StateDir = filepath.Join(dir, "bee")
		}
	}
	var found *emulate.Client
	for _, base := range p.bases() {
		entries, _ := os.ReadDir(filepath.Join(base, leasesDir))
		for _, e := range entries {
			if o, ok := leasedir.OwnerNamed(e.Name()); !ok || !strings.HasPrefix(o.Run, run) {
				continue
			}
			c, err := emulate.Open(ctx, filepath.Join(base, leasesDir, e.Name()))
			if core.IsKind(err, core.NotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if found != nil {
				return nil, fmt.Errorf("more than one run begins with %q", run)
			}
			found = c
		}
	}
	if found == nil {
		return nil, &core.Error{Kind: core.NotFound, Op: "find emulated hosts of run", Object: run, Err: errors.New("there are none"),
			Remedy: "Only live runs on a local site with `hosts` set have any: see `bee ps`."}
	}
	return found, nil
}
