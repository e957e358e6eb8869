package domain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// claimTime is how long the other runs of a domain may keep one from it, and tidyTime how long one waits that leaves.
const (
	claimTime = 20 * time.Second
	tidyTime  = 2 * time.Second
)

const (
	lockName = "lock"
	// mostTries is how often the last run may leave a domain at the moment when this one joins it.
	mostTries = 10
)

// Place is that of a broker in the directory of its domain: a socket, whose name has the broker's LIDs and build. Only
// who has the directory locked adds names, so that no two brokers have one LID.
type Place struct {
	// First is the first LID.
	First uint16

	domain   string
	path     string       // of the directory
	dir      *fsutil.Root // it
	name     string       // of the socket
	kept     *os.File     // the directory above, with a lock: systemd-tmpfiles leaves such ones alone
	lock     *fsutil.Lock // nil: the place is open to others
	listener *net.UnixListener
	others   []other // the brokers that were there before
}

// other is a broker that was there before.
type other struct {
	name string // of its socket
	conn *net.UnixConn
}

// Claim finds a place for a broker with so many ports in the domain of a name, in a directory of the user's. The domain
// is locked until Open or Close.
func Claim(ctx context.Context, own, domain, build string, ports int) (*Place, error) {
	if !filepath.IsLocal(domain) || filepath.Base(domain) != domain || domain == "." {
		return nil, fmt.Errorf("%q is no name of a domain", domain)
	}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	for tries := 0; ; tries++ {
		p, err := enter(ctx, own, domain)
		if err == nil {
			if err = p.claim(ctx, build, ports); err == nil {
				return p, nil
			}
			err = errors.Join(err, p.Close())
		}
		if !errors.Is(err, fs.ErrNotExist) || tries == mostTries { // else the last one has just left, and removed it
			return nil, fmt.Errorf("join the domain %q of bee_0: %w", domain, err)
		}
	}
}

// enter locks the directory of a domain.
func enter(ctx context.Context, own, domain string) (*Place, error) {
	p := &Place{domain: domain, path: filepath.Join(own, domain)}
	for _, dir := range []string{own, p.path} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, errors.Join(err, p.release())
		}
		opened, err := openPrivate(dir)
		if err != nil {
			return nil, errors.Join(err, p.release())
		}
		if dir == own {
			p.kept, err = keep(ctx, opened)
			if err = errors.Join(err, opened.Close()); err != nil {
				return nil, errors.Join(err, p.release())
			}
			continue
		}
		p.dir = opened
	}
	var err error
	if p.lock, err = fsutil.LockFile(ctx, p.at(lockName)); err != nil {
		if ctx.Err() != nil {
			err = &core.Error{Kind: core.Busy, Op: "lock", Object: p.path, Err: errors.New("another run has it locked"), Remedy: "Look for a bee of yours that is stopped, and continue or end it."}
		}
		return nil, errors.Join(err, p.release())
	}
	return p, nil
}

// keep has a directory stay as long as the file is open.
func keep(ctx context.Context, r *fsutil.Root) (*os.File, error) {
	f, err := os.Open(r.Pinned())
	if err != nil {
		return nil, err
	}
	if err := fsutil.Flock(ctx, int(f.Fd()), unix.LOCK_SH); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// release closes the directories.
func (p *Place) release() (err error) {
	if p.dir != nil {
		err = p.dir.Close()
	}
	if p.kept != nil {
		err = errors.Join(err, p.kept.Close())
	}
	return err
}

// openPrivate opens a directory that only this user may enter.
func openPrivate(dir string) (*fsutil.Root, error) {
	r, err := fsutil.OpenOwn(dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(r.Pinned())
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = &core.Error{Kind: core.Permanent, Op: "use", Object: dir, Err: fmt.Errorf("it has the mode %#o, expected 0700", info.Mode().Perm()), Remedy: "Run `chmod 700 " + dir + "`, or remove it while no run uses it."}
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// at is the path of a name in the directory, however long the directory's own path is.
func (p *Place) at(name string) string { return p.dir.Pinned() + "/" + name }

// socket is what the name of one says.
type socket struct {
	name  string
	first int
	ports int
	build string
}

func nameOf(first, ports int, build string) string {
	return fmt.Sprintf("%d-%d-%s", first, ports, build)
}

// buildOf is how names have a build: brokers meet that speak alike, and whose libraries share memory alike.
func buildOf(library string) string { return library + "." + strconv.Itoa(version) }

// sockets are those in the directory, in the order of their LIDs.
func (p *Place) sockets() ([]socket, error) {
	names, err := p.dir.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var all []socket
	for _, name := range names {
		parts := strings.SplitN(name, "-", 3)
		if len(parts) != 3 {
			continue
		}
		first, ferr := strconv.Atoi(parts[0])
		ports, perr := strconv.Atoi(parts[1])
		if ferr == nil && perr == nil && first > 0 && ports > 0 && first+ports-1 <= mostPorts {
			all = append(all, socket{name, first, ports, parts[2]})
		}
	}
	slices.SortFunc(all, func(a, b socket) int { return a.first - b.first })
	return all, nil
}

// claim connects with the brokers that are there, removes what others have left that died, and makes a socket.
func (p *Place) claim(ctx context.Context, library string, ports int) error {
	all, err := p.sockets()
	if err != nil {
		return err
	}
	var live []socket
	for _, s := range all {
		c, err := p.dial(ctx, s.name)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		p.others = append(p.others, other{s.name, c})
		live = append(live, s)
		if s.build != buildOf(library) {
			return &core.Error{Kind: core.Unsupported, Op: "link with", Object: "another run of the domain", Err: errors.New("it has another build of bee"), Remedy: "Use one bee for all runs of a domain, or another domain."}
		}
	}
	first, is := free(live, ports)
	if !is {
		return &core.Error{Kind: core.Unsupported, Op: "find addresses for", Object: fmt.Sprintf("%d nodes", ports), Err: fmt.Errorf("a domain has %d", mostPorts), Remedy: "Use another domain."}
	}
	p.First, p.name = uint16(first), nameOf(first, ports, buildOf(library))
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: p.at(p.name), Net: "unixpacket"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false) // its name ends with dir
	p.listener = l
	return nil
}

// free returns the first of so many LIDs that nobody has: after the highest one, as programs may still have those of runs
// that have ended, or else in the first gap.
func free(live []socket, ports int) (first int, is bool) {
	next := 1
	gap := 0
	for _, s := range live {
		if gap == 0 && s.first-next >= ports {
			gap = next
		}
		next = max(next, s.first+s.ports)
	}
	if next+ports-1 <= mostPorts {
		return next, true
	}
	return gap, gap > 0
}

// dial connects with a socket. It removes one that nobody listens at, and returns nil.
func (p *Place) dial(ctx context.Context, name string) (*net.UnixConn, error) {
	pause := fsutil.Backoff{First: time.Millisecond, Longest: 100 * time.Millisecond}
	for {
		c, err := new(net.Dialer).DialContext(ctx, "unixpacket", p.at(name))
		switch {
		case err == nil:
			return c.(*net.UnixConn), nil
		case errors.Is(err, unix.ECONNREFUSED):
			return nil, p.remove(name) // there is none
		case errors.Is(err, unix.ENOENT):
			return nil, nil // there is none
		case !errors.Is(err, unix.EAGAIN): // else too many others connect
			return nil, err
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, silent(err)
		}
	}
}

func (p *Place) remove(name string) error {
	if err := p.dir.Unlink(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// silent is the error of another run that does not answer.
func silent(err error) error {
	return &core.Error{Kind: core.Busy, Op: "link with", Object: "another run of the domain", Err: fmt.Errorf("it does not answer: %w", err), Remedy: "Look for a bee of yours that is stopped, and continue or end it. Or use another domain."}
}

// Open links with the brokers that were there before, and has others find this one.
func (p *Place) Open(f *Far) error {
	ctx, cancel := context.WithTimeout(context.Background(), claimTime)
	defer cancel()
	for len(p.others) > 0 {
		o := p.others[0]
		p.others = p.others[1:]
		if err := p.meet(ctx, f, o); err != nil {
			return fmt.Errorf("link with another run of the domain %q: %w", p.domain, err)
		}
	}
	err := p.lock.Unlock()
	p.lock = nil
	return err
}

// meet links with a broker that was there before, unless it leaves. One that ends a connection may live nevertheless.
func (p *Place) meet(ctx context.Context, f *Far, o other) error {
	pause := fsutil.Backoff{First: 10 * time.Millisecond, Longest: 500 * time.Millisecond}
	for c := o.conn; c != nil; {
		err := f.Meet(c)
		switch {
		case err == nil, errors.Is(err, errLeaves):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return silent(err)
		case !ended(err):
			return err
		}
		if pause.Wait(ctx) != nil {
			return silent(err)
		}
		if c, err = p.dial(ctx, o.name); err != nil {
			return err
		}
	}
	return nil
}

// Listener is the socket that later brokers connect with.
func (p *Place) Listener() *net.UnixListener { return p.listener }

// Tidy removes the sockets of brokers that have died.
func (p *Place) Tidy() error {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTime)
	defer cancel()
	lock, err := fsutil.LockFile(ctx, p.at(lockName))
	if err != nil {
		return err
	}
	all, err := p.sockets()
	for _, s := range all {
		if s.name == p.name {
			continue
		}
		c, derr := p.dial(ctx, s.name)
		if err = errors.Join(err, derr); c != nil {
			c.Close()
		}
	}
	return errors.Join(err, lock.Unlock())
}

// Close leaves the domain. Who is the last removes its directory. The socket lives until its name is gone: another
// would take it for that of a dead broker, and might have the same name.
func (p *Place) Close() error {
	var errs []error
	for _, o := range p.others {
		o.conn.Close()
	}
	if p.lock == nil {
		ctx, cancel := context.WithTimeout(context.Background(), tidyTime)
		defer cancel()
		var err error
		if p.lock, err = fsutil.LockFile(ctx, p.at(lockName)); err != nil {
			errs = append(errs, err) // the next who comes removes the name
		}
	}
	if p.lock != nil && p.name != "" {
		errs = append(errs, p.remove(p.name))
	}
	if p.listener != nil {
		errs = append(errs, p.listener.Close())
	}
	if p.lock != nil {
		if all, err := p.sockets(); err == nil && len(all) == 0 {
			errs = append(errs, p.remove(lockName))
			if err := os.Remove(p.path); err == nil {
				core.BestEffort(os.Remove(filepath.Dir(p.path))) // unless there are other domains
			}
		}
		errs = append(errs, p.lock.Unlock())
	}
	return errors.Join(append(errs, p.release())...)
}
