package measure

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestClock finds marks however the output is cut, and leaves the rest of it as it is.
func TestClock(t *testing.T) {
	mark := inside.Mark
	const found = `{"programs":{"/a":"1"},"cores":2}`
	text := mark(5) + inside.FoundMark(2) + "{}" + "one\x1etwo\x1ebee-clock no mark at all, but a longer line\n" + mark(1000) + mark(65.25) + inside.FoundMark(len(found)) + found + "\x1e"
	want := strings.NewReplacer(inside.FoundMark(2)+"{}", "", inside.FoundMark(len(found))+found, "", mark(5), "", mark(1000), "", mark(65.25), "").Replace(text)
	at := time.Unix(1.7e9, 0)
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		c := Clock{W: &out}
		for part := range slices.Chunk([]byte(text), size) {
			if err := c.Write(at, part); err != nil {
				t.Fatal(err)
			}
			at = at.Add(time.Second)
		}
		if err := c.Close(); err != nil || out.String() != want || c.marks != 3 {
			t.Fatalf("in parts of %d: %q, %d marks, %v; expected %q and 3", size, out.String(), c.marks, err, want)
		}
		if f, known := c.Found(); !known || f.Cores != 2 || f.Programs["/a"] != "1" {
			t.Errorf("in parts of %d: %+v, %v", size, f, known)
		}
		if guest, host := c.Elapsed(); guest != 60250*time.Millisecond || size < 20 && host <= 0 {
			t.Errorf("in parts of %d: %s by the guest, %s by its host", size, guest, host)
		}
	}
	if guest, host := (&Clock{}).Elapsed(); guest != 0 || host != 0 {
		t.Errorf("without a mark: %s, %s", guest, host)
	}
	for _, text := range []string{"", inside.FoundMark(3) + "{}", inside.FoundMark(1) + "{", inside.FoundMark(0), inside.FoundMark(inside.MaxFound+1) + "{}"} {
		c := Clock{W: &bytes.Buffer{}}
		if err := c.Write(at, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if f, known := c.Found(); known {
			t.Errorf("%q: %+v is known", text, f)
		}
	}
}

// TestApart flags clocks that differ by more than 1 %.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		guest, host time.Duration
		flagged     bool
	}{
		{0, 0, true},
		{time.Second, 0, true},
		{100 * time.Second, 100 * time.Second, false},
		{100 * time.Second, 102 * time.Second, true},
		{102 * time.Second, 100 * time.Second, true},
		{100 * time.Second, 101 * time.Second, false},
		{time.Second, 1090 * time.Millisecond, false}, // as late as a message may be
		{500 * time.Millisecond, time.Second, true},
	} {
		if got := apart(c.guest, c.host); len(got) > 0 != c.flagged {
			t.Errorf("%s by the guest and %s by its host: %q", c.guest, c.host, got)
		}
	}
	testkit.Wording(t, "flags", strings.Join(append(apart(0, 0), apart(time.Second, time.Minute)...), "\n"))
}

// TestTimed puts the clock around a command, whatever its form.
func TestTimed(t *testing.T) {
	text := &spec.Job{Run: &spec.Command{Shell: "echo 'a b'"}}
	list := &spec.Job{Run: &spec.Command{Argv: []string{"echo", "a b"}}}
	none := &spec.Job{}
	timed(text, inside.Names)
	timed(list, inside.Digests)
	timed(none, inside.Names)
	if want := []string{inside.Program, "inside", "clock", "digests", "echo", "a b"}; !slices.Equal(list.Run.Argv, want) || list.Run.Shell != "" {
		t.Errorf("a list is %q, expected %q", list.Run.Argv, want)
	}
	guest := &spec.Job{VM: &spec.VM{}, Run: &spec.Command{Shell: "true"}}
	timed(guest, inside.Names)
	if !strings.HasPrefix(guest.Run.Shell, `exec "$`+beeProgram+`" inside clock names `) || guest.Env[beeProgram] != inside.Program || list.Env[beeProgram] != inside.Program {
		t.Errorf("in a guest, a text is %q in %v", guest.Run.Shell, guest.Env)
	}
	if text.Env[beeProgram] != inside.Program || !strings.HasPrefix(text.Run.Shell, `exec "$`+beeProgram+`" inside clock names `) {
		t.Errorf("a text is %q in %v", text.Run.Shell, text.Env)
	}
	if words := text.Run.Words(); len(words) != 3 || !strings.HasSuffix(words[2], " /bin/sh -c "+shell.Quote("echo 'a b'")) || none.Run != nil {
		t.Errorf("a text is %q, nothing is %+v", words, none.Run)
	}
}

// FuzzClock gives any output of a guest, in two parts, to what looks for marks in it.
func FuzzClock(f *testing.F) {
	const found = `{"programs":{"/a":"1"},"others":[{"host":"b"}]}`
	f.Add("one"+inside.Mark(1), inside.Mark(2)+inside.FoundMark(len(found))+found)
	f.Add(inside.FoundMark(inside.MaxFound), "{}")
	f.Add("\x1ebee-found", " -0000000000000001\n\x1e")
	f.Fuzz(func(t *testing.T, one, two string) {
		var out, whole bytes.Buffer
		cut, once := Clock{W: &out}, Clock{W: &whole}
		at := time.Unix(1.7e9, 0)
		if err := errors.Join(cut.Write(at, []byte(one)), cut.Write(at, []byte(two)), cut.Close(), once.Write(at, []byte(one+two)), once.Close()); err != nil {
			t.Fatal(err)
		}
		a, known := cut.Found()
		b, known2 := once.Found()
		if out.String() != whole.String() || known != known2 || !reflect.DeepEqual(a, b) || cut.marks != once.marks {
			t.Fatalf("in two parts: %q, %+v; in one: %q, %+v", &out, a, &whole, b)
		}
		if len(whole.String()) > len(one+two) {
			t.Fatalf("%q became %q", one+two, &whole)
		}
		merge(&a)
	})
}
