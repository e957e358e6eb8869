package testkit

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// WordingFile is the golden file of a package that Wording reads and writes.
const WordingFile = "testdata/wording.txt"

// wordingMark begins the line before an entry of it.
const wordingMark = "== "

// wording is held by who reads or writes the file.
var wording sync.Mutex

// Wording compares a sentence of BEE's with the entry of this test and case in the golden file
// of the package, so that it can be edited without the test. The pairs of old and new text
// replace what differs from run to run. BEE_TEST_WRITE=1 writes the entry instead.
func Wording(t testing.TB, name, got string, replace ...string) {
	t.Helper()
	key := t.Name() + ": " + strings.ReplaceAll(name, "\n", " ")
	if got != "" {
		got = marked("", strings.NewReplacer(replace...).Replace(got))
	}
	wording.Lock()
	defer wording.Unlock()
	file := filepath.Join(begun, WordingFile)
	entries, err := readWording(file)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(WriteGolden) != "" {
		if entries[key] = got; got == "" {
			delete(entries, key) // as one that is not there
		}
		if err := writeWording(file, entries); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text := differing(entries[key], got); text != "" {
		t.Errorf("%s is not as in %s. If the new text is right, set %s=1 and run this test again, and read the change. %s", key, file, WriteGolden, text)
	}
}

// readWording returns the entries of a golden file, none if there is no file.
func readWording(file string) (map[string]string, error) {
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return WordingEntries(string(raw)), nil
}

// WordingEntries returns the entries of the text of a golden file, by test and case.
func WordingEntries(text string) map[string]string {
	entries := map[string]string{}
	key := ""
	for line := range strings.Lines(text) {
		if name, is := strings.CutPrefix(line, wordingMark); is {
			key = strings.TrimSuffix(name, "\n")
		} else if line != "\n" {
			entries[key] += line
		}
	}
	return entries
}

// writeWording writes the entries in the order of their names.
func writeWording(file string, entries map[string]string) error {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(&text, "%s%s\n%s\n", wordingMark, key, entries[key])
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text.String()), 0o644))
}
