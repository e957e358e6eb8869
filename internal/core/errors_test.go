package core

import (
	"errors"
	"fmt"
	"testing"
)

// TestOwnRemedy: a shared remedy gives way to one that knows more, however deep that is.
func TestOwnRemedy(t *testing.T) {
	cause := errors.New("no")
	for name, c := range map[string]struct {
		err      error
		any, own string
	}{
		"none":               {cause, "", ""},
		"its own":            {&Error{Err: cause, Remedy: "Do this."}, "Do this.", "Do this."},
		"shared":             {&Error{Err: cause, Remedy: RemedyAgain}, RemedyAgain, ""},
		"shared, below none": {fmt.Errorf("all: %w", &Error{Err: &Error{Err: cause, Remedy: RemedyConnection}}), RemedyConnection, ""},
		"both":               {&Error{Remedy: RemedyShow, Err: &Error{Err: cause, Remedy: "Do this."}}, RemedyShow, "Do this."},
	} {
		if got, own := Remedy(c.err), OwnRemedy(c.err); got != c.any || own != c.own {
			t.Errorf("%s: got %q and %q", name, got, own)
		}
	}
}
