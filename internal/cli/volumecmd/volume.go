package volumecmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/mount"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/spf13/cobra"
)

// VolumeCommand returns the command `volume`.
func (a *Commands) VolumeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "volume", Short: "Mount a directory through a burst buffer on this host", Args: cobra.NoArgs,
		Long: `A burst buffer keeps what is written on this host's disk, and drains it to a remote
directory, host or bucket in the background, in order. Writes are as fast as the disk,
however slow the remote is. What was closed or synced survives a crash of this host.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.newVolumeMountCommand(), a.newVolumeUmountCommand(), a.newVolumeStatusCommand(), a.newVolumeDrainCommand(), a.newVolumeLsCommand(), a.newVolumeRecoverCommand(), a.newVolumeForgetCommand(), a.newVolumeCheckCommand(), a.newVolumeExportCommand(), a.newVolumePrefetchCommand())
	return c
}

// volumes is the directory of the records of this host's volumes.
func (a *Commands) volumes() (string, error) {
	err := a.Paths()
	return filepath.Join(a.StateDir, "volumes"), err
}

// allVolumes gives this host's volumes.
func (a *Commands) allVolumes() ([]burst.Config, error) {
	dir, err := a.volumes()
	if err != nil {
		return nil, err
	}
	return burst.All(dir)
}

// volume gives the volume that a word means: of this host, or of a run.
func (a *Commands) volume(ctx context.Context, word string) (burst.Config, error) {
	dir, err := a.volumes()
	if err != nil {
		return burst.Config{}, err
	}
	c, err := mount.Find(dir, word)
	if !core.IsKind(err, core.NotFound) {
		return c, err
	}
	return a.volumeOfRun(ctx, word, err)
}

// volumeOfRun gives the volume of the run that a word means. otherwise is the error where there is no such run.
func (a *Commands) volumeOfRun(ctx context.Context, word string, otherwise error) (burst.Config, error) {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return burst.Config{}, err
	}
	defer s.Close()
	run, err := s.Store.FindRun(ctx, word, state.ToSee)
	if core.IsKind(err, core.NotFound) {
		err = otherwise
	}
	if err != nil {
		return burst.Config{}, err
	}
	c, is, err := runview.RunVolume(a.StateDir, run.ID)
	if err == nil && !is {
		err = &core.Error{
			Kind: core.NotFound, Op: "find the burst buffer of run", Object: run.ID, Err: errors.New("it has none on this host"),
			Remedy: "One that is drained leaves nothing at the end of its run. `bee volume ls --all` lists those that are there.",
		}
	}
	return c, err
}

// completeVolumes completes an argument with the directories of volumes.
func (a *Commands) completeVolumes(_ *cobra.Command, args []string, begun string) (words []string, _ cobra.ShellCompDirective) {
	all, err := a.allVolumes()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, c := range all {
		if strings.HasPrefix(c.Mount, begun) {
			words = append(words, c.Mount+"\t"+c.Remote)
		}
	}
	if len(words) > 0 {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func (a *Commands) newVolumeMountCommand() *cobra.Command {
	var disk, rate, buffer, credentials string
	var local []string
	var protect bool
	c := &cobra.Command{
		Use: "mount REMOTE DIR", Short: "Mount a directory through a burst buffer", Args: cobra.ExactArgs(2),
		Long: `Mount REMOTE at the empty directory DIR, through a buffer on this host's disk.
REMOTE is a directory, HOST:DIRECTORY behind ssh, or s3://BUCKET/PREFIX. Two processes
stay in the background: a client, which ends when DIR is unmounted, and the I/O
process, which ends once everything is drained.

The system's ssh must not have to ask anything. Credentials for a bucket are found as
AWS's tools do, and it needs conditional writes.

Root mounts by itself. Other users need fusermount3, of the package fuse3.`,
		Example: "  mkdir work\n  bee volume mount /mnt/archive/run7 work\n  bee volume mount --rate 400mbit --disk 50G /mnt/archive/run7 work\n  bee volume mount --protect --local tmp /mnt/archive/run7 work\n  bee volume mount ann@archive:run7 work\n  bee volume mount s3://climate/run7 work",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := a.volumes()
			if err != nil {
				return err
			}
			at, err := remotePlace(args[0])
			if err != nil {
				return err
			}
			o := mount.Options{Volumes: dir, Remote: args[0], At: at, Dir: args[1], Protect: protect}
			if o.Local, err = localDirs(local); err != nil {
				return err
			}
			if err := checkCredentials(credentials, at); err != nil {
				return err
			}
			if disk != "" {
				if o.Room, err = spec.ParseSize(disk); err != nil {
					return &core.Error{Kind: core.Invalid, Op: "read --disk", Object: disk, Err: err, Remedy: "Such as 512M or 50G."}
				}
			}
			if rate != "" {
				bits, is := spec.ParseRate(rate)
				if !is {
					return &core.Error{Kind: core.Invalid, Op: "read --rate", Object: rate, Err: errors.New("it is no rate"), Remedy: "Such as 100mbit or 10gbit."}
				}
				o.Rate = max(int64(bits)/8, 1)
			}
			if buffer != "" {
				if o.Buffer, err = realPath(buffer); err != nil {
					return &core.Error{Kind: core.Invalid, Op: "read --buffer", Object: buffer, Err: err, Remedy: "Name a directory that is there."}
				}
			}
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
			return a.volumeMount(c.Context(), o)
		},
	}
	c.Flags().StringVar(&disk, "disk", "", "most `size` of the buffer, such as 50G (default: half of what is free, at most 100G)")
	c.Flags().StringVar(&rate, "rate", "", "most `rate` to and from the remote, such as 400mbit")
	c.Flags().BoolVar(&protect, "protect", false, "neither change nor remove what is on the remote already (EROFS)")
	c.Flags().StringArrayVar(&local, "local", nil, "`directory` in DIR, such as tmp, that the remote never gets; again for others")
	c.Flags().StringVar(&credentials, "credentials", credentialsSite, "`source` of credentials for a bucket: site, which is this host")
	if err := c.RegisterFlagCompletionFunc("credentials", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{credentialsSite}, cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // there is no such flag: a mistake here
	}
	c.Flags().StringVar(&buffer, "buffer", "", "`directory` for the buffer, on a local disk (default: in the state directory)")
	return c
}

// Words of --credentials.
const (
	credentialsSite  = "site"
	credentialsSend  = "send"
	credentialsRelay = "relay"
)

// checkCredentials refuses a source of a bucket's credentials that this host does not have.
func checkCredentials(word string, at remote.Place) error {
	e := &core.Error{Kind: core.Invalid, Op: "read --credentials", Object: fmt.Sprintf("%q", word)}
	switch {
	case word == credentialsSite:
		return nil
	case word != credentialsSend && word != credentialsRelay:
		e.Err, e.Remedy = errors.New("there is no such word"), "Give site, or leave it out."
	case at.Bucket == "":
		e.Err, e.Remedy = errors.New("only buckets have credentials"), "Leave it out."
	default:
		e.Kind, e.Err = core.Unsupported, errors.New("it is for runs on other hosts than the user's")
		e.Remedy = "Leave it out: credentials are found on this host, as AWS's tools find them."
	}
	return e
}

// localDirs reads directories that the remote never gets. "tmp/**" is the directory tmp.
func localDirs(texts []string) (dirs []string, err error) {
	for _, text := range texts {
		dir := path.Clean(strings.TrimSuffix(text, "/**"))
		why := ""
		switch {
		case dir == "." || !filepath.IsLocal(dir):
			why = "it is no directory in the volume"
		case strings.ContainsAny(dir, "*?[\\"):
			why = "it is a pattern, and only whole directories can stay"
		case remote.Hidden(strings.Split(dir, "/")[0], true):
			why = "it belongs to BEE"
		}
		if why != "" {
			return nil, &core.Error{Kind: core.Invalid, Op: "read --local", Object: fmt.Sprintf("%q", text), Err: errors.New(why), Remedy: "Name a directory from the top of the volume on, such as tmp or out/scratch."}
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// remotePlace takes the text of a remote apart.
func remotePlace(text string) (remote.Place, error) {
	host, _, colon := strings.Cut(text, ":")
	if !colon || strings.Contains(host, "/") {
		return remote.Place{Dir: text}, nil
	}
	s, err := spec.ParseStore(text)
	if err != nil {
		return remote.Place{}, &core.Error{Kind: core.Invalid, Op: "use remote", Object: text, Err: err, Remedy: "Name a directory, such as /mnt/archive/run7, ann@archive:run7 or s3://bucket/run7."}
	}
	return remote.Place(s), nil
}

func (a *Commands) volumeMount(ctx context.Context, o mount.Options) error {
	ctx, done := console.UntilInterrupt(ctx)
	defer done()
	c, err := mount.Up(ctx, o)
	if err != nil {
		return err
	}
	a.Say("%s is mounted at %s, with a buffer of %s at %s", c.Remote, c.Mount, console.BytesText(c.Room), c.Place)
	a.On(a.Stderr).SayBelow("Data that were not closed or synced are lost if this host dies within a second. All others are not, once its disk is back.")
	return nil
}

func (a *Commands) newVolumeUmountCommand() *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use: "umount DIR", Short: "Unmount a volume, and wait until it is drained", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeVolumes,
		Long: `Unmount a volume, and wait until the remote has everything. With --no-wait, or after an
interrupt, the command prints what is undrained. It stays on this host's disk, and
draining continues in the background. Files of --local are removed in the end.`,
		Example: "  bee volume umount work",
		RunE: func(c *cobra.Command, args []string) error {
			v, err := a.volume(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := mount.Down(c.Context(), v); err != nil {
				return err
			}
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			if noWait {
				s, _, err := v.Look(ctx)
				if err == nil && !s.Drained {
					a.Say("undrained: %s in %d changes; draining continues, and `bee volume drain %s` waits for it", console.BytesText(s.Undrained), s.Changes, v.Remote)
				}
				return err
			}
			return a.volumeEnd(ctx, v)
		},
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, "leave draining to the background")
	return c
}

// volumeEnd waits until a volume is drained, and removes what it has left on this host.
func (a *Commands) volumeEnd(ctx context.Context, v burst.Config) error {
	s, err := a.volumeDrain(ctx, v, true)
	if err != nil {
		return err
	}
	a.printConflicts(s)
	_, err = mount.Clean(ctx, v, true)
	return err
}

func (a *Commands) newVolumeDrainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "drain VOLUME", Short: "Wait until the remote of a volume has everything", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeVolumes,
		Long: `Wait until the remote of a volume has everything that was written so far, files that
are open included. VOLUME is where it is mounted, its remote, its id, or its run. An
I/O process that was killed is started again: it has everything that was closed or
synced. What the remote refuses, such as for want of permission, is an error.`,
		Example: "  bee volume drain work",
		RunE: func(c *cobra.Command, args []string) error {
			v, err := a.volume(c.Context(), args[0])
			if err != nil {
				return err
			}
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			s, err := a.volumeDrain(ctx, v, false)
			if err == nil {
				a.printConflicts(s)
			}
			return err
		},
	}
}

// drainLook is how often the progress of draining is looked at.
const drainLook = 200 * time.Millisecond

// mostDied is how often in a row an I/O process is started again while draining is waited for.
const mostDied = 10

// volumeDrain waits until a volume is drained: of what was written so far, or of all that is written
// meanwhile, too.
func (a *Commands) volumeDrain(ctx context.Context, v burst.Config, all bool) (calls.Status, error) {
	binary, err := os.Executable()
	if err != nil {
		return calls.Status{}, err
	}
	var peer *rpc.Peer
	defer func() {
		if peer != nil {
			peer.Close()
		}
	}()
	last := uint64(0) // number of the newest change that is waited for
	status := func() (calls.Status, error) {
		if peer == nil {
			if peer, err = v.Connect(ctx, binary); err != nil {
				return calls.Status{}, err
			}
			p, err := rpc.Call(ctx, peer, calls.Publish, rpc.None{})
			if err != nil {
				return calls.Status{}, err
			}
			if last == 0 {
				last = p.Last
			}
		}
		return rpc.Call(ctx, peer, calls.StatusCall, rpc.None{})
	}
	// An I/O process of an earlier version of bee has no numbers: last is 0.
	drained := func(s calls.Status) bool { return s.Drained || !all && last > 0 && (s.Head == 0 || s.Head > last) }
	line := output.NewStatusLine(a.Stderr)
	inPlace := output.IsTerminal(a.Stderr) && output.IsSmart()
	waits, died, begun := "", 0, time.Now()
	for {
		s, err := status()
		if err == nil {
			died = 0
		}
		switch {
		case err != nil:
		case drained(s):
			line.Clear()
			return s, nil
		case s.Superseded:
			err = &core.Error{
				Kind: core.Permanent, Op: "drain", Object: v.Remote, Err: errors.New("a later attempt of its run has the remote"),
				Remedy: "`bee volume export " + v.ID + " DIRECTORY` saves what is undrained.",
			}
		case s.Refused != nil && s.Refused.Final && s.Refused.Last.After(begun):
			err = burst.Refusal(s)
		default:
			if inPlace {
				line.Show(fmt.Sprintf("%s in %d changes undrained %s", console.BytesText(s.Undrained), s.Changes, s.Waits))
			} else if s.Waits != waits && s.Waits != "" {
				a.Say("draining waits: %s", s.Waits)
			}
			waits = s.Waits
			err = core.Sleep(ctx, drainLook)
		}
		if core.IsKind(err, core.Lost) && ctx.Err() == nil && peer != nil && died < mostDied { // it has died, and is started again
			died++
			peer.Close()
			peer = nil
			continue
		}
		if err != nil {
			line.Clear()
			if ctx.Err() != nil {
				err = &core.Error{
					Kind: core.Stopped, Op: "wait for draining of", Object: v.Remote,
					Err:    fmt.Errorf("%s in %d changes are undrained", console.BytesText(s.Undrained), s.Changes),
					Remedy: "They stay on this host's disk, and draining continues. `bee volume drain " + v.Remote + "` waits again.",
				}
			}
			return s, err
		}
	}
}

func (a *Commands) printConflicts(s calls.Status) {
	for _, c := range s.Conflicts {
		if c.As != "" {
			a.Say("others have changed %s on the remote; yours is %s beside it", output.Printable(c.Path), output.Printable(c.As))
		} else {
			a.Say("others have changed %s on the remote, which stays as it is there", output.Printable(c.Path))
		}
	}
}
