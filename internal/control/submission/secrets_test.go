package submission

import (
	"reflect"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

func TestASecretsCommandSaysWhyItFails(t *testing.T) {
	_, err := Secrets(t.Context(), &spec.Job{Secrets: map[string]spec.Secret{"T": {Exec: "echo hidden; echo the store is locked >&2; exit 3"}}})
	if !core.IsKind(err, core.Invalid) || !strings.Contains(err.Error(), "exit status 3: the store is locked") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("got %v", err)
	}
}

// TestSubmissionsAreRecordedWhole: what a record leaves out reads as it was.
func TestSubmissionsAreRecordedWhole(t *testing.T) {
	s := Submission{
		Version: Version, Sites: []spec.Site{{Name: "s1", Provider: "slurm", Slurm: &spec.Slurm{}}, {Name: "s2"}},
		Job: spec.Job{Name: "null", Nodes: 2, Entrypoint: &spec.Command{Argv: []string{}}, Env: map[string]string{"X": "null"}, Outputs: []spec.Output{{From: "/work/null", To: "/r"}}},
	}
	raw, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Of(state.Run{ID: "r", Submission: raw})
	if err != nil || !reflect.DeepEqual(got, s) || strings.Contains(string(raw), `"Build":null`) {
		t.Errorf("%v: got\n%+v, was\n%+v, recorded as\n%s", err, got, s, raw)
	}
}
