package crashes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is also a process with controllers: its arguments are DIR, how it ends, and runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "control" {
		os.Exit(controllers(os.Args[2], os.Args[3], os.Args[4:]))
	}
	os.Exit(m.Run())
}

func controllers(dir, how string, runs []string) int {
	marks, err := In(dir)
	if err != nil {
		panic(err)
	}
	mark, err := marks.Begin(context.Background())
	if err != nil {
		panic(err)
	}
	for _, run := range runs {
		if err := mark.Add(run); err != nil {
			panic(err)
		}
	}
	fmt.Println("marked")
	switch how {
	case "panic":
		go func() { var hosts []int; fmt.Println(hosts[len(runs)]) }()
	case "fatal":
		m := map[int]int{}
		for range 8 {
			go func() {
				for i := 0; ; i++ {
					m[i%7] = i
				}
			}()
		}
	case "memory":
		limit := syscall.Rlimit{Cur: 3 << 30, Max: 3 << 30}
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err != nil {
			panic(err)
		}
		for all := [][]byte{}; ; {
			all = append(all, make([]byte, 64<<20))
		}
	case "exit":
		return 7
	case "end":
		if err := errors.Join(mark.Remove(runs[0]), mark.Close()); err != nil {
			panic(err)
		}
		return 0
	}
	select {}
}

func TestOnlyAFaultOfTheProgramIsACrash(t *testing.T) {
	for name, c := range map[string]struct {
		how    string
		signal syscall.Signal
		reason string // of the crash; "": none
	}{
		"a panic":                    {how: "panic", reason: "panic: runtime error: index out of range"},
		"a fault of maps":            {how: "fatal", reason: unnamedFatal},
		"no memory":                  {how: "memory"},
		"an exit code":               {how: "exit"},
		"the end":                    {how: "end"},
		"killed":                     {how: "wait", signal: syscall.SIGKILL},
		"ended by TERM":              {how: "wait", signal: syscall.SIGTERM},
		"a dump by QUIT":             {how: "wait", signal: syscall.SIGQUIT},
		"aborted by another process": {how: "wait", signal: syscall.SIGABRT},
		"a signal of a fault":        {how: "wait", signal: syscall.SIGSEGV},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "supervisors")
			marks, err := In(dir)
			if err != nil {
				t.Fatal(err)
			}
			p := exec.Command(os.Args[0], "control", dir, c.how, "a", "b")
			out, err := p.StdoutPipe()
			if err == nil {
				err = p.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("%q, %v", line, err)
			}
			if c.how == "wait" {
				err := marks.Collect(t.Context(), func(c Crash) error { return fmt.Errorf("a crash of a process that runs: %+v", c) })
				if err := errors.Join(err, p.Process.Signal(c.signal)); err != nil {
					t.Error(err)
				}
			}
			// Go's runtime was seen to hang as it ended by ABRT, all threads waiting.
			hung := time.AfterFunc(time.Minute, func() { p.Process.Kill() })
			p.Wait() //nolint:errcheck // it ends as it should
			hung.Stop()
			var got []Crash
			broken := errors.New("the disk is full")
			if err := marks.Collect(t.Context(), func(c Crash) error { got = append(got, c); return broken }); errors.Is(err, broken) != (c.reason != "") {
				t.Errorf("collect: %v", err)
			}
			if err := marks.Collect(t.Context(), func(c Crash) error { got = append(got, c); return nil }); err != nil {
				t.Error(err)
			}
			if c.reason == "" {
				if len(got) > 0 {
					t.Errorf("a crash: %+v", got)
				}
			} else if len(got) != 2 || !reflect.DeepEqual(got[0], got[1]) || !reflect.DeepEqual(got[0].Runs, []string{"a", "b"}) || !strings.HasPrefix(Reason(got[0].Text), c.reason) || !strings.Contains(got[0].Text, "goroutine") {
				t.Errorf("got %+v, want a crash with %q, that is collected until it is counted", got, c.reason)
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*-*")); err != nil || len(left) > 0 {
				t.Errorf("there is left %v, %v", left, err)
			}
		})
	}
}

func TestReason(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                   {"", ""},
		"a panic":                   {"panic: boom\n\ngoroutine 7 [running]:\n", "panic: boom"},
		"a panic that names memory": {"panic: site says: out of memory\nfatal error: newosproc\n", "panic: site says: out of memory"},
		"after a line":              {"unexpected fault address 0x0\nfatal error: fault\n", "fatal error: fault"},
		"no memory":                 {"fatal error: runtime: out of memory\n\nruntime stack:\n", ""},
		"no memory for a map":       {"fatal error: runtime: cannot allocate memory\n", ""},
		"a fatal error, as it is":   {"\ngoroutine 25 [running]:\ninternal/runtime/maps.fatal({0x5f3561?, 0x0?})\n", unnamedFatal},
		"a stack without end":       {"runtime stack:\nruntime.throw({0x5f3561?, 0x0?})\nruntime.newstack()\n\ngoroutine 1 [running]:\nruntime.mallocgc()\n", unnamedFatal},
		"no threads, as it is":      {"\nruntime stack:\nruntime.throw({0x5f3561?, 0x0?})\nruntime.newosproc(0x1)\n", ""},
		"no threads":                {"fatal error: newosproc\n", ""},
		"a dump without its head":   {"\ngoroutine 1 [select (no cases)]:\nmain.main()\n", ""},
		"a dump":                    {"SIGQUIT: quit\nPC=0x1 m=0\n\ngoroutine 1 [running]:\nmain.panic: x\n", ""},
	} {
		if got := Reason(c.text); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestCrashesInARow(t *testing.T) {
	dir, at := t.TempDir(), time.Now()
	for i, c := range []struct {
		process string
		after   time.Duration
		want    int
	}{
		{"p", 0, 1},
		{"p", 0, 1}, // counted twice, as after a kill in between
		{"q", time.Minute, 2},
		{"r", row - time.Minute, 3},
		{"s", row + time.Minute, 1},
		{"t", 0, 2},
		{"u", 0, 3},
		{"v", 0, 4},
		{"w", 0, 4}, // enough
	} {
		at = at.Add(c.after)
		if got, err := Add(dir, c.process, at); err != nil || got != c.want {
			t.Errorf("crash %d: got %d, %v; want %d", i, got, err, c.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, countName), []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := Count(dir); n != 0 || err != nil {
		t.Errorf("of a damaged file: %d, %v", n, err)
	}
	if n, err := Add(dir, "x", at); n != 1 || err != nil {
		t.Errorf("after a damaged file: %d, %v", n, err)
	}
	if err := errors.Join(Clear(dir), Clear(dir)); err != nil {
		t.Error(err)
	}
	if n, err := Count(dir); n != 0 || err != nil {
		t.Errorf("after its end: %d, %v", n, err)
	}
	if n, err := Add(filepath.Join(dir, "removed"), "x", at); n != 0 || err != nil {
		t.Errorf("of a run that was removed: %d, %v", n, err)
	}
}

// TestDivide: the guilty run is alone after few crashes, and no crash makes many processes.
func TestDivide(t *testing.T) {
	for _, n := range []int{1, 2, 8, 9, 200, 5000} {
		var runs []string
		for i := range n {
			runs = append(runs, fmt.Sprint(i))
		}
		guilty, crashes := runs[n/2], 0
		for len(runs) > 1 {
			crashes++
			groups := Divide(append(runs, "trusted"), func(run string) bool { return run != "trusted" })
			if !reflect.DeepEqual(groups[0], []string{"trusted"}) || len(groups) > 1+mostGroups {
				t.Fatalf("%d runs: %d groups, first %v", n, len(groups), groups[0])
			}
			all := 0
			for _, g := range groups[1:] {
				all += len(g)
				if strings.Contains(" "+strings.Join(g, " ")+" ", " "+guilty+" ") {
					runs = g
				}
			}
			if crashes == 1 && all != n || crashes > 5 {
				t.Fatalf("of %d suspects %d are in groups, after %d crashes", n, all, crashes)
			}
		}
	}
	if got := Divide(nil, nil); len(got) != 1 || len(got[0]) != 0 {
		t.Errorf("of none: %v", got)
	}
}
