package nodecmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/wire"
	"github.com/spf13/cobra"
)

type sshOptions struct {
	config, proxy bool
	forward       int
	login         string
}

// SSHCommand returns the command `ssh`.
func (a *Commands) SSHCommand() *cobra.Command {
	var o sshOptions
	c := &cobra.Command{
		Use: "ssh RUN [NODE] [flags] [-- COMMAND...]", Short: "Log in to a run's virtual machine by ssh",
		Long: `Log in to a run's virtual machine by ssh, with keys made for the run. The
connection uses BEE's own, on every site. No daemon listens in the guest.

With --config, print settings by which ssh, scp, rsync and editors reach all guests
of the run. With --forward, a port of this machine's loopback leads to the guest
while the command runs. Only the run's key opens it.`,
		Example: "  bee ssh lysozyme\n  bee ssh lysozyme 1 -- uptime\n  bee ssh --config lysozyme >> ~/.ssh/config",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			rank, command, err := GuestArgs(c, args, 0)
			if err != nil {
				return err
			}
			return a.ssh(c.Context(), args[0], rank, command, o)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.config, "config", false, "print settings for ssh(1)")
	f.IntVar(&o.forward, "forward", -1, "lead this `port` of the loopback to the guest (0: any free one)")
	f.StringVarP(&o.login, "login", "l", "", "`user` in the guest (default the site's; root is possible)")
	f.BoolVar(&o.proxy, "proxy", false, "be the connection, for ssh's ProxyCommand")
	f.MarkHidden("proxy")
	return c
}

// GuestArgs gives the node and the command after RUN; where no node is named, the
// given one.
func GuestArgs(c *cobra.Command, args []string, rank int) (_ int, command []string, err error) {
	remedy := "Such as: " + strings.TrimSpace(strings.Split(strings.TrimSpace(c.Example), "\n")[1])
	before := c.ArgsLenAtDash()
	if before < 0 {
		before = len(args)
	}
	if before == 0 || before > 2 {
		return 0, nil, &core.Error{Kind: core.Invalid, Op: "read arguments of", Object: c.CommandPath(), Err: errors.New("a run, and perhaps a node's rank, come before `--`"), Remedy: remedy}
	}
	if before == 2 {
		if rank, err = strconv.Atoi(args[1]); err != nil {
			return 0, nil, &core.Error{Kind: core.Invalid, Op: "read node", Object: args[1], Err: errors.New("a node is named by its rank, a number from 0"), Remedy: remedy}
		}
	}
	return rank, args[before:], nil
}

func (a *Commands) ssh(ctx context.Context, word string, rank int, command []string, o sshOptions) error {
	s, run, err := a.OpenRun(ctx, word)
	if err != nil {
		return err
	}
	defer s.Close()
	sub, err := submission.Of(run)
	if err != nil {
		return err
	}
	if v := sub.Job.VM; v == nil || v.When == spec.VMNever {
		return noGuest(run.ID, errors.New("the run has none"))
	}
	keys, err := makeKeys(ctx, filepath.Join(s.Store.RunDir(run.ID), "ssh"))
	if err != nil {
		return err
	}
	if err := settable(s.Binary, a.StateDir, a.CacheDir); err != nil {
		return err
	}
	if o.proxy {
		return a.sshOver(ctx, run.ID, rank, keys, os.Stdin, a.Stdout)
	}
	// Whether there is a guest, ssh would report among much else.
	login, err := a.guestLogin(ctx, run.ID, rank)
	if o.login != "" && core.IsKind(err, core.Invalid) { // another account is wanted than the one that is no name
		login, err = o.login, nil
	}
	if err != nil {
		return err
	}
	if o.login == "" {
		o.login = login
	}
	if err := checkLogin(o.login); err != nil {
		return err
	}
	switch {
	case o.config:
		_, err := io.WriteString(a.Stdout, a.sshConfig(s.Binary, run.ID, sub.Job.Nodes, o.login, keys))
		return err
	case o.forward >= 0:
		return a.forward(ctx, run.ID, rank, o, keys)
	}
	file := filepath.Join(keys.dir, "config")
	if err := fsutil.WriteFile(file, []byte(a.sshConfig(s.Binary, run.ID, sub.Job.Nodes, o.login, keys)), 0o600); err != nil {
		return err
	}
	argv := []string{"-F", file, "-l", o.login, sshName(run.ID, rank)}
	c := exec.CommandContext(ctx, "ssh", append(argv, command...)...)
	// ssh, and with it the command in the guest, ends where this process is killed. The signal
	// is sent when the thread ends that started ssh, so that thread has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, a.Stdout, a.Stderr
	err = c.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() >= 0 {
		return console.Exit(ended.ExitCode())
	}
	return noSSH(err)
}

// noSSH explains that OpenSSH is not here.
func noSSH(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return &core.Error{Kind: core.Unsupported, Op: "log in by ssh", Err: err, Remedy: "Install OpenSSH's client, or use `bee vm shell`, which needs none."}
	}
	return err
}

// sshKeys are those of a run: one for its guests, one for its user.
type sshKeys struct{ dir string }

// makeKeys makes the keys of a run when they are first wanted.
func makeKeys(ctx context.Context, dir string) (sshKeys, error) {
	k := sshKeys{dir}
	if _, err := os.Stat(dir); err == nil {
		return k, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return k, err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), ".ssh-")
	if err != nil {
		return k, err
	}
	defer os.RemoveAll(temp)
	for _, name := range []string{"key", "host"} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bee-"+name, "-f", filepath.Join(temp, name)).CombinedOutput(); err != nil {
			return k, noSSH(fmt.Errorf("make a key: %w %s", err, out))
		}
	}
	public, err := os.ReadFile(filepath.Join(temp, "host.pub"))
	if err != nil {
		return k, err
	}
	if err := fsutil.WriteFile(filepath.Join(temp, "known_hosts"), append([]byte(knownHost+" "), public...), 0o600); err != nil {
		return k, err
	}
	if err := os.Rename(temp, dir); err != nil {
		if _, there := os.Stat(dir); there != nil { // else someone was quicker
			return k, err
		}
	}
	return k, nil
}

// knownHost is what the guests of a run are called among its known hosts.
const knownHost = "bee-guest"

func sshName(run string, rank int) string { return "bee-" + run + "-" + strconv.Itoa(rank) }

// sshConfig are the settings for ssh(1), which reach all guests of a run.
func (a *Commands) sshConfig(binary, run string, nodes int, login string, k sshKeys) string {
	var b strings.Builder
	for rank := range nodes {
		// ssh splits words at blanks but knows quotes, and gives the command to
		// a shell, which knows them too.
		proxy := fmt.Sprintf("%s --state-dir %s --cache %s ssh --proxy %s %d", quoteWord(binary), quoteWord(a.StateDir), quoteWord(a.CacheDir), run, rank)
		fmt.Fprintf(&b, "Host %s\n  ProxyCommand %s\n  User %s\n  IdentityFile \"%s\"\n  IdentitiesOnly yes\n  UserKnownHostsFile \"%s\"\n  HostKeyAlias %s\n  StrictHostKeyChecking yes\n",
			sshName(run, rank), proxy, login, literal(filepath.Join(k.dir, "key")), literal(filepath.Join(k.dir, "known_hosts")), knownHost)
	}
	return b.String()
}

// literal keeps ssh from expanding what stands behind a % of a path.
func literal(path string) string { return strings.ReplaceAll(path, "%", "%%") }

// settable refuses paths that ssh's configuration cannot hold.
func settable(paths ...string) error {
	for _, p := range paths {
		if strings.ContainsAny(p, "\n\r\x00\"") {
			return &core.Error{
				Kind: core.Invalid, Op: "configure ssh with", Object: strconv.Quote(p), Err: errors.New("its configuration has no way to write quotes and line breaks"),
				Remedy: "Use a directory without them, by --state-dir and --cache.",
			}
		}
	}
	return nil
}

// quoteWord quotes a word for the shell, and for ssh, which expands %.
func quoteWord(s string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, "'", `'\''`), "%", "%%") + "'"
}

// guestLogin asks the node of a guest for the account there: that of the site's
// user, who need not be called as this one is.
func (a *Commands) guestLogin(ctx context.Context, run string, rank int) (string, error) {
	node, done, err := a.DialNode(ctx, run, rank)
	if err != nil {
		return "", err
	}
	defer done()
	login, err := node.Login(ctx)
	if core.IsKind(err, core.NotFound) {
		err = noGuest(run, err)
	}
	if err != nil {
		return "", err
	}
	return login, checkLogin(login)
}

// checkLogin refuses what is no account's name: it stands in ssh's configuration, where a
// line break or a blank would begin another setting, and on command lines.
func checkLogin(login string) error {
	if core.IsAccount(login) {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "log in as", Object: strconv.Quote(core.Printable(login, 80)), Err: errors.New("expected the name of an account: lower-case letters, digits, `_`, `-` and `.`"),
		Remedy: "Name the account by --login, such as `--login root`.",
	}
}

func noGuest(run string, why error) error {
	return &core.Error{
		Kind: core.NotFound, Op: "log in to a virtual machine of", Object: run, Err: why,
		Remedy: "Only virtual machines have ssh: `bee exec -t " + run + " -- bash` gives a shell in any run's container.",
	}
}

// sshOver carries one connection of ssh to a guest.
func (a *Commands) sshOver(ctx context.Context, run string, rank int, k sshKeys, in io.Reader, out io.Writer) error {
	node, done, err := a.DialNode(ctx, run, rank)
	if err != nil {
		return err
	}
	defer done()
	host, err1 := os.ReadFile(filepath.Join(k.dir, "host"))
	public, err2 := os.ReadFile(filepath.Join(k.dir, "key.pub"))
	header, err3 := json.Marshal(api.SSHKeys{Host: string(host), Authorized: string(public)})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	r := nodecall.ExecRequest{Rank: rank, Guest: true, Args: []string{api.GuestBinary, api.Command, api.SSHD}}
	exit, err := node.Exec(ctx, r, io.MultiReader(bytes.NewReader(append(header, '\n')), in), out, a.Stderr, nil)
	if err == nil && exit.Code != 0 {
		err = console.Exit(exit.Code)
	}
	return err
}

// forward leads a port of the loopback to a guest.
func (a *Commands) forward(ctx context.Context, run string, rank int, o sshOptions, k sshKeys) error {
	ctx, cancel := console.UntilInterrupt(ctx)
	defer cancel()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.forward)))
	if err != nil {
		return &core.Error{Kind: core.Busy, Op: "listen on port", Object: strconv.Itoa(o.forward), Err: err, Remedy: "Name another port, or 0 for any."}
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, err = fmt.Fprintf(a.Stdout, "ssh -p %s -i %s -o IdentitiesOnly=yes -o HostKeyAlias=%s -o UserKnownHostsFile=%s %s@127.0.0.1\n", port,
		quoteWord(filepath.Join(k.dir, "key")), knownHost, quoteWord(filepath.Join(k.dir, "known_hosts")), o.login)
	if err != nil {
		return err
	}
	// sshd in the guest authenticates callers; each connection costs it a process.
	g := wire.Gate{Most: mostForwarded, Failed: func(err error) { a.PrintError(err) }}
	g.Serve(l, func(c net.Conn, known func() bool) {
		defer c.Close()
		known()
		if err := a.sshOver(ctx, run, rank, k, c, c); err != nil {
			if _, ended := errors.AsType[console.Exit](err); !ended {
				a.PrintError(err)
			}
		}
	})
	return nil
}

// mostForwarded is how many connections a forwarded port leads to the guest at a time.
const mostForwarded = 64
