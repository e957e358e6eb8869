package testkit

import (
	"fmt"
	"os"
	"testing"
)

// FiguresVariable names the file to which tests add what they have measured, a line
// each, for `make test` to show.
const FiguresVariable = "BEE_TEST_FIGURES"

// Figure reports what a test has measured, which it is not judged by.
func Figure(t testing.TB, format string, a ...any) {
	t.Helper()
	text := fmt.Sprintf(format, a...)
	t.Log(text)
	path := os.Getenv(FiguresVariable)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s: %s\n", t.Name(), text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Errorf("add to the figures: %v", err)
	}
}
