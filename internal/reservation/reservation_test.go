package reservation

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// ledgerVariable has a process of the test reserve memory in that ledger, report whether
// it could, and stay until its standard input ends; runVariable names its run.
const (
	ledgerVariable = "BEE_TEST_LEDGER"
	runVariable    = "BEE_TEST_RUN"
	joinVariable   = "BEE_TEST_JOIN"
)

const want, room = 600, 1000 // bytes

var errNoRoom = errors.New("there is no room")

func TestMain(m *testing.M) {
	if path := os.Getenv(joinVariable); path != "" {
		JoinPath(path)
		fmt.Println("joined")
		io.Copy(io.Discard, os.Stdin)
		return
	}
	dir := os.Getenv(ledgerVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	held, why, err := Ledger(dir).Make(New(os.Getenv(runVariable), want), func(others []Reservation) error {
		left := int64(room)
		for _, p := range others {
			left -= p.Bytes
		}
		if left < want {
			return errNoRoom
		}
		return nil
	})
	held.Follow(os.Getpid())
	fmt.Println(held != nil, why, err)
	io.Copy(io.Discard, os.Stdin)
	held.Release()
}

// holder starts a process that reserves memory, and gives what it printed.
func holder(t *testing.T, l Ledger, run string) (c *exec.Cmd, end io.Closer, printed string) {
	t.Helper()
	c, end, out := begin(t, l, run)
	return c, end, answer(t, out)
}

// begin starts such a process.
func begin(t *testing.T, l Ledger, run string) (c *exec.Cmd, end io.Closer, out io.Reader) {
	t.Helper()
	c = exec.Command(os.Args[0])
	c.Env = append(os.Environ(), ledgerVariable+"="+string(l), runVariable+"="+run)
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait() //nolint:errcheck // it was killed
	})
	return c, in, out
}

// answer is what it says.
func answer(t *testing.T, out io.Reader) string {
	t.Helper()
	printed, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(printed)
}

func ledger(t *testing.T) Ledger { return Ledger(filepath.Join(t.TempDir(), "memory")) }

const yes, no = "true <nil> <nil>", "false <nil> there is no room"

// held are the runs that hold memory.
func held(t *testing.T, l Ledger) (runs []string) {
	t.Helper()
	all, err := l.Reservations()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		runs = append(runs, p.Run)
	}
	return runs
}

func TestWhatAKilledProcessPromisedIsFree(t *testing.T) {
	l := ledger(t)
	first, _, printed := holder(t, l, "first")
	if printed != yes {
		t.Fatalf("the first: %s", printed)
	}
	if _, _, printed := holder(t, l, "second"); printed != no {
		t.Errorf("the second, beside the first: %s", printed)
	}
	if got := held(t, l); len(got) != 1 || got[0] != "first" {
		t.Errorf("held by %q", got)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.Wait() //nolint:errcheck // it was killed
	third, end, printed := holder(t, l, "third")
	if printed != yes {
		t.Errorf("the third, after the first was killed: %s", printed)
	}
	if files, _ := filepath.Glob(filepath.Join(string(l), "*"+suffix)); len(files) != 1 {
		t.Errorf("there are %q", files)
	}
	if err := errors.Join(end.Close(), third.Wait()); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(string(l), "*"+suffix)); len(files) != 0 {
		t.Errorf("released, there are %q", files)
	}
}

func TestOfManyAtOnceOneGetsIt(t *testing.T) {
	l, outs := ledger(t), make([]io.Reader, 12)
	for i := range outs {
		_, _, outs[i] = begin(t, l, fmt.Sprint(i))
	}
	count := map[string]int{}
	for _, out := range outs {
		count[answer(t, out)]++
	}
	if count[yes] != 1 || count[no] != 11 {
		t.Errorf("they say %v", count)
	}
}

func TestWhatIsTakenIsNotOpen(t *testing.T) {
	l := ledger(t)
	if _, _, printed := holder(t, l, "x"); printed != yes {
		t.Fatal(printed)
	}
	testkit.Eventually(t, 30*lookPause, func() error {
		all, err := l.Reservations()
		if err != nil || len(all) != 1 || all[0].Taken < 1<<16 || all[0].Open() != 0 {
			return fmt.Errorf("%+v, %w", all, err)
		}
		return nil
	})
}

// Anyone who can write to /tmp may have been there before.
func TestALedgerOfOthersIsNotUsed(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"open to all": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
		"a link":      func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"a file":      func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger(t)
			if err := prepare(string(l)); err != nil {
				t.Fatal(err)
			}
			asked := 0
			held, why, err := l.Make(New("x", 1), func(others []Reservation) error {
				asked += 1 + len(others)
				return nil
			})
			if held != nil || why == nil || err != nil || asked != 1 {
				t.Errorf("%v, %v, %v, asked for %d", held, why, err, asked)
			}
			held.Follow(1)
			held.Release()
		})
	}
}
