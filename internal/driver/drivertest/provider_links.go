package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
)

// linksVolume is the directory, below a host's own, in which a stand-in node plays with links.
const linksVolume = "volume"

// outsideText is what a file outside holds. Nothing that is fetched may.
const outsideText = "outside of the volume"

// makeOutside makes a directory that nobody but its owner has a business in.
func makeOutside(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "deep"), 0o700); err != nil {
		return err
	}
	for _, name := range []string{"secret", "deep/secret"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			continue // of a node before
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(outsideText), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// lookOutside describes what is in a directory.
func lookOutside(dir string) string {
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		fmt.Fprint(&all, rel, " ", d.Type())
		if d.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			fmt.Fprintf(&all, " %q %v", raw, err)
		}
		fmt.Fprintln(&all)
		return nil
	})
	return fmt.Sprint(all.String(), err)
}

// playWithLinks swaps a file, a directory and everything in it for links to outside, FIFOs
// and links that lead in a circle, for ever. What others make of these places is removed. It
// follows no link itself: transfers may leave one where it has just had a directory.
func playWithLinks(volume, outside string) {
	for round := 0; ; round++ {
		os.MkdirAll(volume, 0o700) //nolint:errcheck // the next round does it
		if root, err := fsutil.OpenRoot(volume); err == nil {
			playRound(root, outside)
			root.Close()
		}
		os.WriteFile("rounds", fmt.Append(nil, round), 0o600) //nolint:errcheck // the next round does it
	}
}

// playRound is a round of playWithLinks.
//
//nolint:errcheck // what fails, as others work there too, the next round does
func playRound(root *fsutil.Root, outside string) {
	up := strings.Repeat("../", 30) + strings.TrimPrefix(outside, "/")
	root.RemoveAll("deep")
	root.Mkdir("deep", 0o700)
	for _, place := range []string{"secret", "deep/d", "deep"} {
		for _, target := range []string{outside, up, filepath.Base(place), outside + "/secret", outside + "/deep"} {
			root.RemoveAll(place)
			if place == "secret" {
				root.WriteFile(place, []byte("own"), 0o600)
			} else {
				root.Mkdir(place, 0o700)
				root.WriteFile(place+"/secret", []byte("own"), 0o600)
				root.Symlink(outside+"/secret", place+"/link")
			}
			time.Sleep(time.Millisecond) // a copy comes in between, now and then
			root.RemoveAll(place)
			root.Symlink(target, place)
			time.Sleep(time.Millisecond) // as above
		}
		root.RemoveAll(place)
		if parent, err := root.Sub(filepath.Dir(place)); err == nil {
			syscall.Mkfifo(filepath.Join(parent.Pinned(), filepath.Base(place)), 0o600)
			parent.Close()
		}
	}
}

// leastRounds is how often a node has swapped everything at least before it is ended, and
// linksTimeout how long one transfer may take.
const (
	leastRounds  = 5
	linksTimeout = time.Minute
)

// jobLinks transfers what a job swaps for links and FIFOs meanwhile, yields it to the next
// lease and releases both. Transfers may fail; nothing from outside arrives, and nothing
// outside changes.
func (s ProviderSuite) jobLinks(t *testing.T) {
	p, o := s.New(t), s.owner(t)
	l := s.leaseOf(t, p, o)
	outside := filepath.Join(t.TempDir(), "outside")
	config := nodeConfig{Outside: outside}
	before := s.startAs(t, l, 0, config).Outside
	if !strings.Contains(before, outsideText) {
		t.Fatalf("the node has made nothing outside: %s", before)
	}
	unchanged := func(l driver.Lease, after string) {
		t.Helper()
		if now := s.ask(t, l, 0).Outside; now != before {
			t.Errorf("%s, there is outside:\n%s\nand there was:\n%s", after, now, before)
		}
	}
	s.transferLinks(t, l, l.Hosts()[0].Dir)
	unchanged(l, "after transfers")
	o.Attempt++
	if y := l.VolumeReuse(); y != nil {
		check(t, y.LendVolume(t.Context()))
	}
	next := s.leaseOf(t, p, o)
	if reuser := next.VolumeReuse(); reuser != nil && l.VolumeReuse() != nil {
		dir := next.Hosts()[0].Dir
		check(t, reuser.ReuseVolume(t.Context(), filepath.Join(l.Hosts()[0].Dir, linksVolume), filepath.Join(dir, linksVolume)))
	}
	check(t, l.Release(t.Context()))
	s.startAs(t, next, 0, config)
	unchanged(next, "after the release of the first")
	check(t, next.Release(t.Context()))
	o.Attempt++
	last := s.leaseOf(t, p, o)
	s.startAs(t, last, 0, config)
	unchanged(last, "after the release of all")
}

// transferLinks fetches and stages until the node has made its rounds.
func (s ProviderSuite) transferLinks(t *testing.T, l driver.Lease, dir string) {
	t.Helper()
	own, got := filepath.Join(t.TempDir(), "own"), filepath.Join(t.TempDir(), "got")
	check(t, os.MkdirAll(filepath.Join(own, "sub"), 0o700))
	check(t, os.WriteFile(filepath.Join(own, "sub", "file"), []byte("staged"), 0o600))
	volume, one := filepath.Join(dir, linksVolume), filepath.Join(t.TempDir(), "one")
	within := func(what string, do func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), linksTimeout)
		defer cancel()
		if err := do(ctx); ctx.Err() != nil {
			t.Fatalf("%s waits: %v", what, err)
		}
	}
	rounds := filepath.Join(t.TempDir(), "rounds")
	testkit.Eventually(t, 20*time.Second, func() error {
		for _, again := range []bool{false, true} {
			into := fmt.Sprint(got, again)
			within("to fetch", func(ctx context.Context) error {
				return l.Fetch(ctx, driver.Transfer{Remote: volume, Local: into, Again: again})
			})
			wantNoneOutside(t, into)
			for _, name := range []string{"secret", "deep", "deep/secret", "deep/d/secret", "deep/deep/secret"} {
				within("to fetch "+name, func(ctx context.Context) error {
					return l.Fetch(ctx, driver.Transfer{Remote: filepath.Join(volume, name), Within: volume, Seen: "/work", Local: one})
				})
				wantNoneOutside(t, one)
				check(t, os.RemoveAll(one))
			}
			for _, name := range []string{"deep", "secret"} {
				within("to stage", func(ctx context.Context) error {
					return l.Stage(ctx, driver.Transfer{Local: own, Remote: filepath.Join(volume, name), Again: again})
				})
			}
		}
		if err := l.Fetch(t.Context(), driver.Transfer{Remote: filepath.Join(dir, "rounds"), Local: rounds}); err != nil && !core.IsKind(err, core.NotFound) {
			return err
		}
		raw, err := os.ReadFile(rounds)
		n := 0
		if fmt.Sscan(string(raw), &n); n < leastRounds { //nolint:errcheck // 0 then
			return fmt.Errorf("%d rounds, %w", n, errors.Join(err, errStillSo))
		}
		return nil
	})
}

// wantNoneOutside fails the test where a copy has what lies outside.
func wantNoneOutside(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) == outsideText {
			t.Errorf("%s came from outside: %q, %v", path, raw, err)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
