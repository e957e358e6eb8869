package setupcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/vm"
	"github.com/bee-hpc/bee/internal/vm/qemu"
)

// TestADoctorWithoutASiteFails, also for scripts that read its JSON.
func TestADoctorWithoutASiteFails(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		for status, want := range map[standing]error{missing: console.Exit(console.ExitUnsupported), works: nil} {
			var out bytes.Buffer
			d := diagnosis{Runtime: "rootless", Why: "of something", Findings: []finding{{Area: areaOfSite, Name: "rack", Status: status}}}
			err := New(workspace.New(&out, nil, "")).printDiagnosis(d, asJSON)
			if !errors.Is(err, want) || out.Len() == 0 {
				t.Errorf("site %s, JSON %t: %v, %q", status, asJSON, err, out.String())
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

// TestDoctorTellsWhatIsKnownOfKVM: a device that opens proves nothing.
func TestDoctorTellsWhatIsKnownOfKVM(t *testing.T) {
	for name, c := range map[string]struct {
		accel, why string
		err        error
		want       standing
	}{
		"tried, works":     {vm.KVM, "a guest was up", nil, works},
		"tried, hangs":     {vm.TCG, "a guest hung", nil, absent},
		"not tried yet":    {"", "", nil, untried},
		"no right, no KVM": {vm.TCG, "", errors.New("permission denied"), absent},
	} {
		if f := kvm(c.accel, c.why, c.err); f.Status != c.want || (f.Remedy != "") != (c.want == absent) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestDoctorPrints compares what is printed of findings of all kinds with a golden file.
func TestDoctorPrints(t *testing.T) {
	var out bytes.Buffer
	for _, d := range []diagnosis{
		{Runtime: "rootless", Why: "of something", Findings: []finding{
			kvm(vm.KVM, "a guest was up", nil), kvm(vm.TCG, "a guest hung", nil), kvm("", "", nil), kvm(vm.TCG, "", errors.New("permission denied")),
			{Area: "disk", Name: "scratch", Status: risky, Remedy: "Name another one."},
			{Area: areaOfSite, Name: "lab", Status: works},
			{Area: areaOfSite, Name: "rack", Status: missing, Remedy: "Look after it."},
		}},
		{Why: "of nothing", Findings: []finding{{Area: "runtime", Name: "podman", Status: missing, Remedy: "Install it."}}},
	} {
		err := New(workspace.New(&out, nil, "")).printDiagnosis(d, false)
		fmt.Fprintf(&out, "(%v)\n\n", err)
	}
	testkit.Golden(t, "doctor", out.String())
}

// TestDoctorReportsAQEMUWithoutASandbox, and has nothing to say of one that has it.
func TestDoctorReportsAQEMUWithoutASandbox(t *testing.T) {
	for _, c := range []struct {
		name, script string
		found        bool
	}{
		{"with seccomp", "exit 0", false},
		{"without seccomp", `[ "$1" != -sandbox ]`, true},
		{"broken", "exit 1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := core.WriteProgram(filepath.Join(dir, qemu.Program()), []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir)
			if f, found := sandbox(t.Context()); found != c.found || found && (f.Status == works || f.Remedy == "") {
				t.Errorf("%+v, %v", f, found)
			}
		})
	}
}

// TestTheDoctorsVerdict: what is absent alone spoils nothing.
func TestTheDoctorsVerdict(t *testing.T) {
	site := finding{Area: areaOfSite, Name: "lab", Status: works}
	for _, c := range []struct {
		name     string
		runtime  string
		findings []finding
		want     verdict
		marks    string
		code     error
	}{
		{"healthy", "rootless", []finding{{Area: "runtime", Name: "podman", Status: absent, Remedy: "Install it."}, site}, ready, "- ok", nil},
		{"with a drawback", "rootless", []finding{{Area: "disk", Status: risky}, {Area: "device", Status: untried}, site}, ready, "! ? ok", nil},
		{"a site is missing", "rootless", []finding{site, {Area: areaOfSite, Name: "rack", Status: missing}}, partly, "ok no", nil},
		{"elsewhere only", "", []finding{{Area: "runtime", Status: absent}, site}, ready, "- ok", nil},
		{"no site", "rootless", []finding{{Area: "runtime", Status: works}, {Area: areaOfSite, Name: "rack", Status: missing}}, notReady, "ok no", console.Exit(console.ExitUnsupported)},
		{"nothing", "", []finding{{Area: "runtime", Status: missing}, {Area: areaOfSite, Name: "lab", Status: missing}}, notReady, "no no", console.Exit(console.ExitUnsupported)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, asJSON bytes.Buffer
			d := diagnosis{Runtime: c.runtime, Why: "of something", Findings: c.findings}
			if err := New(workspace.New(&out, nil, "")).printDiagnosis(d, false); !errors.Is(err, c.code) {
				t.Errorf("ended with %v", err)
			}
			var marks []string
			for line := range strings.Lines(out.String()) {
				if line == "\n" {
					break
				}
				if mark := strings.Fields(line)[0]; mark != "→" {
					marks = append(marks, mark)
				}
			}
			if want := strings.Fields(c.marks); !slices.Equal(marks, want) || !strings.Contains(out.String(), "\nverdict: ") {
				t.Errorf("marks %q, want %q:\n%s", marks, want, out.String())
			}
			New(workspace.New(&asJSON, nil, "")).printDiagnosis(d, true) //nolint:errcheck // see above
			var got struct {
				Verdict  verdict
				Findings []struct {
					OK     bool
					Status standing
				}
			}
			if err := json.Unmarshal(asJSON.Bytes(), &got); err != nil || got.Verdict != c.want {
				t.Errorf("%v: %s", err, asJSON.String())
			}
			for i, f := range got.Findings {
				if f.OK != (f.Status == works) || f.Status != c.findings[i].Status {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
