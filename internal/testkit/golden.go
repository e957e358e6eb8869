package testkit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/core"
)

// WriteGolden is the variable that has tests write their golden files.
const WriteGolden = "BEE_TEST_WRITE"

// Golden compares a text with testdata/golden/NAME.txt in the package of the test.
// BEE_TEST_WRITE=1 writes the file instead.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join(begun, "testdata", "golden", name+".txt")
	if os.Getenv(WriteGolden) != "" {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if text := differing(string(raw), got); text != "" {
		t.Errorf("%s is not as in %s. If the new text is right, set %s=1 and run this test again, and read the change. %s", name, file, WriteGolden, text)
	}
}

// GoldenNames returns the names of the golden files in the package of the test.
func GoldenNames(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(begun, "testdata", "golden", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".txt")
	}
	return files
}

// differing returns the first lines in which two texts differ, or "".
func differing(want, got string) string {
	if want == got {
		return ""
	}
	wanted, lines := strings.Split(want, "\n"), strings.Split(got, "\n")
	first := 0
	for first < min(len(wanted), len(lines)) && wanted[first] == lines[first] {
		first++
	}
	const shown = 8
	part := func(all []string) string {
		return strings.Join(all[min(first, len(all)):min(first+shown, len(all))], "\n")
	}
	return fmt.Sprintf("From line %d on, got:\n%s\nwant:\n%s", first+1, part(lines), part(wanted))
}

// ErrorText is an error as golden files have it: its kind, its message and its remedy.
func ErrorText(err error) string {
	if err == nil {
		return "no error\n"
	}
	text := core.KindOf(err).String() + ": " + err.Error() + "\n"
	if remedy := core.Remedy(err); remedy != "" {
		text += "remedy: " + remedy + "\n"
	}
	return marked("", text)
}

// marked is a text with a mark before each line. Lines that are not plain text are quoted.
func marked(mark, text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		line = strings.TrimSuffix(line, "\n")
		if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			line = strconv.Quote(line)
		}
		b.WriteString(mark + line + "\n")
	}
	return b.String()
}

// ErrorList collects the errors of the cases of a table, for one golden file.
type ErrorList struct{ text strings.Builder }

// Add appends a case: what was given, and the error of it.
func (l *ErrorList) Add(given string, err error) {
	l.text.WriteString(marked("> ", given) + ErrorText(err) + "\n")
}

// String returns the list as it is so far.
func (l *ErrorList) String() string { return l.text.String() }

// Compare compares the whole list with a golden file.
func (l *ErrorList) Compare(t testing.TB, name string) {
	t.Helper()
	Golden(t, name, l.String())
}
