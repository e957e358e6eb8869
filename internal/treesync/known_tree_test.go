package treesync

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// accepted counts the files that neither end has read.
func (c carried) accepted() int {
	n := 0
	if c.basis.index != nil {
		for i := range c.basis.index.files {
			if c.basis.accepted.has(i) {
				n++
			}
		}
	}
	return n
}

// pages makes a tree of small files, with attributes, and gives their number.
func pages(t *testing.T, root string) int {
	t.Helper()
	const n = 40
	for i := range n {
		name := page(root, i)
		must(t, os.MkdirAll(filepath.Dir(name), 0o750))
		must(t, os.WriteFile(name, noise(4096+i, byte(i)), 0o640))
		if i%5 > 0 {
			unix.Setxattr(name, "user.note", []byte("of "+name), 0) //nolint:errcheck // where there are attributes
		}
	}
	return n
}

func note(name string) {
	unix.Setxattr(name, "user.note", []byte("another"), 0) //nolint:errcheck // see pages
}

func page(root string, i int) string { return filepath.Join(root, fmt.Sprint("d", i%4), fmt.Sprint(i)) }

// secretly does something to a file that leaves its size and its mtime.
func secretly(t *testing.T, name string, do func(name string, other []byte)) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(name, &st))
	do(name, noise(int(st.Size), 99))
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{st.Mtim, st.Mtim}, 0))
}

func rewrite(t *testing.T) func(string, []byte) {
	return func(name string, other []byte) {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		must(t, err)
		_, err = f.Write(other)
		must(t, err)
		must(t, f.Close())
	}
}

func replace(t *testing.T) func(string, []byte) {
	return func(name string, other []byte) {
		must(t, os.WriteFile(name+".new", other, 0o640))
		must(t, os.Rename(name+".new", name))
	}
}

// TestWhatHasNotChangedIsNotRead: and what has is found, however well it hides.
func TestWhatHasNotChangedIsNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		change func(from, first string)
		less   int // files that are read
	}{
		"nothing":                             {func(string, string) {}, 0},
		"rewritten, its time set back":        {func(from, _ string) { secretly(t, page(from, 3), rewrite(t)) }, 1},
		"replaced, with the same time":        {func(from, _ string) { secretly(t, page(from, 3), replace(t)) }, 1},
		"longer":                              {func(from, _ string) { must(t, os.WriteFile(page(from, 3), noise(9999, 98), 0o640)) }, 1},
		"other permissions":                   {func(from, _ string) { must(t, os.Chmod(page(from, 3), 0o400)) }, 1},
		"another attribute":                   {func(from, _ string) { note(page(from, 3)) }, 1},
		"the first attribute":                 {func(from, _ string) { note(page(from, 5)) }, 1},
		"the copy's attribute":                {func(_, first string) { note(page(first, 5)) }, 1},
		"a second name":                       {func(from, _ string) { must(t, os.Link(page(from, 3), page(from, 3)+"b")) }, 1},
		"another name":                        {func(from, _ string) { must(t, os.Rename(page(from, 3), page(from, 3)+"b")) }, 1},
		"gone":                                {func(from, _ string) { must(t, os.Remove(page(from, 3))) }, 1},
		"one more":                            {func(from, _ string) { must(t, os.WriteFile(page(from, 3)+"b", noise(5000, 97), 0o600)) }, 0},
		"a directory elsewhere":               {func(from, _ string) { must(t, os.Rename(from+"/d1", from+"/e")) }, 10},
		"a link in place of a directory":      {func(from, _ string) { must(t, os.Rename(from+"/d1", from+"/e")); must(t, os.Symlink("e", from+"/d1")) }, 10},
		"the copy, its time set back":         {func(_, first string) { secretly(t, page(first, 3), rewrite(t)) }, 1},
		"the copy, by one with the same time": {func(_, first string) { secretly(t, page(first, 3), replace(t)) }, 1},
		"the copy is gone":                    {func(_, first string) { must(t, os.Remove(page(first, 3))) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			from, first, second, third := filepath.Join(dir, "from"), filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "third")
			n := pages(t, from)
			over(t, from, first, "")
			c.change(from, first)
			got := carry(t, from, second, first, nil)
			must(t, got.err)
			same(t, describe(t, from), describe(t, second))
			if got.accepted() > n-c.less {
				t.Errorf("%d of %d files count as the same", got.accepted(), n)
			}
			if least := n - max(c.less, 1); got.accepted() < least {
				t.Errorf("only %d files count as the same, want %d", got.accepted(), least)
			}
			if c.less <= 1 && got.back > 20_000 {
				t.Errorf("%d bytes came", got.back)
			}
			// What was not sent counts the next time as well.
			got = carry(t, from, third, second, nil)
			must(t, got.err)
			same(t, describe(t, from), describe(t, third))
			if got.accepted() < n-2 {
				t.Errorf("the third time only %d files count as the same", got.accepted())
			}
			noLeftovers(t, dir)
		})
	}
}

// So many that the receiver is notified of the first ones before the last are looked at.
func TestManyFilesThatHaveNotChanged(t *testing.T) {
	dir := t.TempDir()
	from, first, second := filepath.Join(dir, "from"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	const n = 5 * keptAtOnce / 2
	name := func(i int) string { return filepath.Join(from, fmt.Sprintf("d%d", i%3), fmt.Sprint(i)) }
	for i := range n {
		must(t, os.MkdirAll(filepath.Dir(name(i)), 0o755))
		must(t, os.WriteFile(name(i), fmt.Append(nil, i), 0o644))
	}
	over(t, from, first, "")
	must(t, os.WriteFile(name(n/2), []byte("another"), 0o644))
	c := carry(t, from, second, first, nil)
	must(t, c.err)
	same(t, describe(t, from), describe(t, second))
	if c.accepted() != n-1 || c.back > 1000 {
		t.Errorf("%d of %d files counted as the same, %d bytes came", c.accepted(), n, c.back)
	}
}

// A copy is a copy: what happens to one leaves the other as it is.
func TestCopiesShareNothing(t *testing.T) {
	dir := t.TempDir()
	from, first, second := filepath.Join(dir, "from"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	n := pages(t, from)
	over(t, from, first, "")
	if c := carry(t, from, second, first, nil); c.err != nil || c.accepted() != n {
		t.Fatalf("%d, %v", c.accepted(), c.err)
	}
	want := describe(t, first)
	for i := range n {
		secretly(t, page(second, i), rewrite(t))
	}
	same(t, want, describe(t, first))
}

// What becomes of the copy after it was offered does not come into the next one.
func TestACopyThatChangesAfterItsOffer(t *testing.T) {
	for name, change := range map[string]func(name string) error{
		"its mode":           func(name string) error { return os.Chmod(name, 0o777) },
		"it goes":            os.Remove,
		"its directory goes": func(name string) error { return os.RemoveAll(filepath.Dir(name)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			from, first, second := filepath.Join(dir, "from"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
			n := pages(t, from)
			over(t, from, first, "")
			once := sync.OnceValue(func() error { return change(page(first, 3)) })
			c := carry(t, from, second, first, func(int64) { must(t, once()) })
			if !core.IsKind(c.err, core.Transient) || c.accepted() != n {
				t.Fatalf("%d files were not read; %v", c.accepted(), c.err)
			}
			if _, err := os.Lstat(second); err == nil {
				t.Error("it was made all the same")
			}
			over(t, from, second, first)
			same(t, describe(t, from), describe(t, second))
			noLeftovers(t, dir)
		})
	}
}

// Modes arrive as they are, whatever the receiver's own are made with.
func TestModesWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o22, 0o77} {
		t.Run(fmt.Sprintf("%o", mask), func(t *testing.T) {
			dir := t.TempDir()
			from := filepath.Join(dir, "from")
			must(t, os.Mkdir(from, 0o700))
			modes := []uint32{0o400, 0o444, 0o640, 0o666, 0o755, 0o777, 0o1644}
			for _, mode := range modes {
				name := filepath.Join(from, fmt.Sprintf("%o", mode))
				must(t, os.WriteFile(name, noise(1000, byte(mode)), 0o600))
				must(t, unix.Chmod(name, mode))
			}
			defer unix.Umask(unix.Umask(mask))
			last := ""
			for i := range 3 {
				to := filepath.Join(dir, fmt.Sprint(i))
				c := carry(t, from, to, last, nil)
				must(t, c.err)
				same(t, describe(t, from), describe(t, to))
				if i > 0 && c.accepted() != len(modes) {
					t.Errorf("%d files count as the same", c.accepted())
				}
				last = to
			}
			copied := filepath.Join(dir, "copied")
			must(t, Copy(t.Context(), from, copied, nil))
			same(t, describe(t, from), describe(t, copied))
		})
	}
}

// Everything else travels as ever: links, holes, what is no file.
func TestUnusualFilesOverAnIndex(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	makeTree(t, from)
	f, err := os.Create(filepath.Join(from, "hollow"))
	must(t, err)
	_, err = f.Write([]byte("an island"))
	must(t, err)
	_, err = f.WriteAt([]byte("and another"), 8<<20)
	must(t, err)
	must(t, f.Close())
	last := ""
	for i := range 3 {
		to := filepath.Join(dir, fmt.Sprint(i))
		t.Cleanup(func() { _ = fsutil.RemoveAll(to) })
		c := carry(t, from, to, last, nil)
		must(t, c.err)
		same(t, describe(t, from), describe(t, to))
		var st unix.Stat_t
		must(t, unix.Stat(filepath.Join(to, "sparse"), &st))
		if st.Blocks*512 > 1<<20 {
			t.Errorf("the hole was filled: %d blocks", st.Blocks)
		}
		if i > 0 && c.accepted() < 5 { // but big, which has two names, sparse and hollow
			t.Errorf("%d files count as the same", c.accepted())
		}
		must(t, os.WriteFile(filepath.Join(from, "more"), []byte{byte(i)}, 0o600))
		last = to
	}
}

// What has come from A continues to B, and what has become of it there comes back.
func TestAnIndexServesBothWays(t *testing.T) {
	dir := t.TempDir()
	a, home, b, back := filepath.Join(dir, "a"), filepath.Join(dir, "home"), filepath.Join(dir, "b"), filepath.Join(dir, "back")
	n := pages(t, a)
	over(t, a, home, "")
	over(t, home, b, "")
	secretly(t, page(b, 7), rewrite(t))
	c := carry(t, b, back, home, nil)
	must(t, c.err)
	same(t, describe(t, b), describe(t, back))
	if c.accepted() != n-1 {
		t.Errorf("%d files count as the same", c.accepted())
	}
}

// A file that changes while it is sent, and while what is noted of it is kept.
func TestAFileThatChangesWhileItIsSent(t *testing.T) {
	for name, at := range map[string]func(done, size int64) bool{
		"in the midst": func(done, size int64) bool { return done > size/2 },
		"at its end":   func(done, size int64) bool { return done == size },
		"all the time": func(int64, int64) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			const size = 3 << 20
			dir := t.TempDir()
			from, first, second := filepath.Join(dir, "from"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
			file := filepath.Join(from, "state")
			must(t, os.Mkdir(from, 0o700))
			must(t, os.WriteFile(file, noise(size, 1), 0o600))
			c := carry(t, from, first, "", func(done int64) {
				if at(done, size) {
					secretly(t, file, rewrite(t))
				}
			})
			must(t, c.err)
			over(t, from, second, first)
			same(t, describe(t, from), describe(t, second))
		})
	}
}

// What breaks leaves the indexes of the time before.
func TestABrokenTransferKeepsTheIndex(t *testing.T) {
	dir := t.TempDir()
	from, first, second := filepath.Join(dir, "from"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	n := pages(t, from)
	over(t, from, first, "")
	must(t, os.WriteFile(page(from, 3), noise(3<<20, 5), 0o600))
	b, err := NewBasis(t.Context(), second, first)
	must(t, err)
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		if known, err := Agree(far, from); err == nil {
			SendOver(t.Context(), struct{ io.Writer }{&cutting{far, 1 << 20}}, from, known, nil) //nolint:errcheck // it is to fail
		}
	}()
	must(t, b.SendKnown(t.Context(), near))
	if err := ReceiveOver(t.Context(), near, second, b); !core.IsKind(err, core.Lost) {
		t.Fatalf("got %v", err)
	}
	near.Close()
	c := carry(t, from, second, first, nil)
	must(t, c.err)
	same(t, describe(t, from), describe(t, second))
	if c.accepted() != n-1 {
		t.Errorf("%d files count as the same", c.accepted())
	}
	noLeftovers(t, dir)
}

// cutting is a connection that breaks after so many bytes.
type cutting struct {
	net.Conn
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		c.Close()
	}
	return c.Conn.Write(b)
}

// TestRelayedAgreement: who joins the two ends carries what they agree on.
func TestRelayedAgreement(t *testing.T) {
	dir := t.TempDir()
	from, first, second := filepath.Join(dir, "from"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	n := pages(t, from)
	over(t, from, first, "")
	sender, toSender := net.Pipe()
	receiver, toReceiver := net.Pipe()
	go func() {
		defer sender.Close()
		if known, err := Agree(sender, from); err == nil {
			SendOver(t.Context(), sender, from, known, nil) //nolint:errcheck // the receiver shows it
		}
	}()
	relayed := make(chan error, 1)
	go func() {
		err := RelayKnown(toSender, toReceiver)
		if err == nil {
			err = Relay(toReceiver, toSender)
		}
		toReceiver.Close()
		relayed <- err
	}()
	b, err := NewBasis(t.Context(), second, first)
	must(t, err)
	must(t, b.Keyed().SendKnown(t.Context(), receiver))
	must(t, ReceiveOver(t.Context(), receiver, second, b))
	receiver.Close()
	<-relayed //nolint:errcheck // it was cut off
	if c := (carried{basis: b}); c.accepted() != n {
		t.Errorf("%d files count as the same", c.accepted())
	}
	same(t, describe(t, from), describe(t, second))
}
