package cli

import (
	"bytes"
	"errors"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
)

// TestADoctorWithoutARuntimeFails, also for scripts that read its JSON.
func TestADoctorWithoutARuntimeFails(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		for runtime, want := range map[string]error{"": exitError{exitUnsupported}, "rootless": nil} {
			var out bytes.Buffer
			err := (&app{stdout: &out}).tellDiagnosis(diagnosis{Runtime: runtime, Why: "of something"}, asJSON)
			if !errors.Is(err, want) || out.Len() == 0 {
				t.Errorf("runtime %q, JSON %t: %v, %q", runtime, asJSON, err, out.String())
			}
		}
	}
}

func TestWhatIsSaidOfARuntime(t *testing.T) {
	found := driver.Facts{Version: "1.0", Detail: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}}
	if got, want := runtimeText("a runtime", found), "a runtime, version 1.0, a: 1, b: 2, c: 3, d: 4, e: 5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	found.Reason = "no"
	if got := runtimeText("a runtime", found); got != "no" {
		t.Errorf("of one that does not work: %q", got)
	}
}
