package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

func beefile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFlagsAreCheckedLikeTheBeefile: all that is wrong with flags is reported by
// their names, at once with what is wrong in the files.
func TestFlagsAreCheckedLikeTheBeefile(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("BEE_SITES", "")
	t.Setenv("SLURM_JOB_ID", "")
	good := beefile(t, "image: a\nnodes: 2\nenv: {A: x}\n")
	bad := beefile(t, "image: a\nnodes: 0\nsites: [locla]\nretry: many\n")
	sites := beefile(t, "sites: [{name: lab, provider: local, slots: -1}]\n")
	away := beefile(t, "image: a\nnodes: 0\ninputs: [{from: none, to: /in/}]\nsecrets: {A: {env: BEE_TEST_UNSET}}\n")
	for line, says := range map[string][]string{
		"check " + away:                      {":2:8: nodes: 0", ":3:17: inputs[0].from", ":4:20: secrets.A.env"},
		"run " + away:                        {":2:8: nodes: 0", ":3:17: inputs[0].from", ":4:20: secrets.A.env"},
		"run -n 1 --image oci:none " + away:  {"--image: image: ", ":3:17: inputs[0].from", ":4:20: secrets.A.env"},
		"plan " + away:                       {":2:8: nodes: 0"},
		"run -n -3 " + good:                  {"--nodes: nodes: -3"},
		"run -n 0 " + good:                   {"--nodes: nodes: 0"},
		"plan -n 0 " + good:                  {"--nodes: nodes: 0"},
		"run --wait -5m " + good:             {"--wait: -5m0s"},
		"run --time 30 " + good:              {`--time: "30"`},
		"run --time 0s " + good:              {"--time: 0s"},
		"plan --time 5s " + good:             {"--time: time: 5s"},
		"run --cores -1 " + good:             {"--cores: cores: -1"},
		"run --memory 16 " + good:            {"--memory: memory: 16 bytes"},
		"run --memory lots " + good:          {`--memory: "lots"`},
		"run -e =x -e A-B=c -e 1U " + good:   {`--env: "" `, `--env: "1U" `, `--env: "A-B" `},
		"run --image ./x.tar " + good:        {"(--image docker-archive:./x.tar)"},
		"run --image= " + good:               {"--image: neither"},
		"run --site nope " + good:            {`--site: sites: "nope"`},
		"run --site= " + good:                {"--site: "},
		"run --pull no " + good:              {`--pull: "no"`},
		"check " + bad:                       {":2:8: nodes: 0", `:3:9: sites: "locla"`, ":4:8: retry"},
		"run -n 0 --site local " + bad:       {"--nodes: nodes: 0", ":4:8: retry"},
		"check --sites " + sites + " " + bad: {":2:8: nodes: 0", ":4:8: retry", "slots: -1 "},
	} {
		err := newDesk(t).bee(strings.Fields(line)...)
		if console.CodeOf(err) != console.ExitInvalid {
			t.Errorf("%s: got %v", line, err)
			continue
		}
		lines := slices.DeleteFunc(strings.Split(err.Error(), "\n"), func(l string) bool { return strings.HasPrefix(l, " ") })
		if len(lines) != len(says) {
			t.Errorf("%s: got\n%v\nwant %q", line, err, says)
			continue
		}
		for i, want := range says {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s: got %s, want %s", line, lines[i], want)
			}
		}
	}
}

// TestARunThatCannotBeIsToldInJSON, too: a script reads standard output.
func TestARunThatCannotBeIsToldInJSON(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("BEE_SITES", "")
	t.Setenv("SLURM_JOB_ID", "")
	for line, want := range map[string]console.Failure{
		"run --json " + beefile(t, "image: a\nnodes: 0\nretry: many\n"): {Error: &console.ErrorView{Kind: "invalid"}, Problems: make([]spec.Problem, 2)},
		"run --json -d /there/is/none":                                  {Error: &console.ErrorView{Kind: "not found"}},
		"vm restore --json " + t.TempDir():                              {Error: &console.ErrorView{Kind: "not found"}},
	} {
		d := newDesk(t)
		err := d.bee(strings.Fields(line)...)
		var got console.Failure
		if jerr := json.Unmarshal(d.out.Bytes(), &got); jerr != nil || got.Error == nil {
			t.Errorf("bee %s: %v, wrote %q", line, jerr, d.out.String())
			continue
		}
		if err == nil || got.Error.Kind != want.Error.Kind || got.Error.Message != err.Error() || got.Error.Remedy != core.Remedy(err) || len(got.Problems) != len(want.Problems) {
			t.Errorf("bee %s: %v, wrote %s", line, err, d.out.String())
		}
	}
}
