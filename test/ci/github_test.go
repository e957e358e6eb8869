package ci

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	"github.com/goccy/go-yaml"
)

// workflow is what tests read of a workflow of GitHub's.
type workflow struct {
	Env  map[string]string
	Jobs map[string]workflowJob
}

type workflowJob struct {
	Needs string
	Steps []step
}

type step struct {
	Uses, Run, If, Shell string
	With, Env            map[string]string
}

// action is what tests read of a composite action.
type action struct {
	Inputs  map[string]struct{ Default string }
	Outputs map[string]struct{ Value string }
	Runs    struct{ Steps []step }
}

const (
	ourAction = "bee-hpc/bee/ci/github@"
	always    = "always()"
)

// decoded reads YAML.
func decoded[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

// hosted is a machine that runs the steps of one job.
type hosted struct {
	t         *testing.T
	b         *testkit.Bee
	env       []string
	artifacts string
	printed   string
}

var expression = regexp.MustCompile(`\$\{\{ *([a-z]+)\.([A-Za-z_-]+) *\}\}`)

// known is what expressions of the page mean.
var known = map[string]map[string]string{
	"secrets": {"SSH_KEY": "a key", "BEE_TICKET_KEY": key},
	"vars":    {"SSH_KNOWN_HOSTS": "a host"},
}

// filled is a text with the values of its expressions.
func (h *hosted) filled(text string, inputs map[string]string) string {
	return expression.ReplaceAllStringFunc(text, func(found string) string {
		m := expression.FindStringSubmatch(found)
		values := known[m[1]]
		if m[1] == "inputs" {
			values = inputs
		}
		value, is := values[m[2]]
		if !is {
			h.t.Errorf("%s is not known", found)
		}
		return value
	})
}

// run runs steps in order, as the runner of GitHub does: after a failure only those that
// always run.
func (h *hosted) run(steps []step, inputs map[string]string) (code int) {
	h.t.Helper()
	for _, s := range steps {
		if code != 0 && s.If != always {
			continue
		}
		env := slices.Clone(h.env)
		for name, value := range s.Env {
			env = append(env, name+"="+h.filled(value, inputs))
		}
		this := 0
		switch name, _, _ := strings.Cut(s.Uses, "@"); {
		case s.Run != "":
			script := h.b.File(".script", h.filled(s.Run, inputs))
			var printed string
			this, printed = execute(h.t, h.b, env, "bash", "--noprofile", "--norc", "-eo", "pipefail", script)
			h.printed += printed
		case strings.HasPrefix(s.Uses, ourAction):
			this = h.runAction(s.With)
		case name == "actions/checkout":
		case name == "actions/upload-artifact":
			h.upload(strings.Fields(s.With["path"]))
		case name == "actions/download-artifact":
			if err := os.CopyFS(h.b.Work, os.DirFS(h.artifacts)); err != nil {
				h.t.Error(err)
			}
		default:
			h.t.Errorf("a step uses %q", s.Uses)
		}
		if code == 0 {
			code = this
		}
	}
	return code
}

// upload keeps those of some paths that are there, files or directories.
func (h *hosted) upload(paths []string) {
	h.t.Helper()
	found := 0
	for _, path := range paths {
		from, to := filepath.Join(h.b.Work, path), filepath.Join(h.artifacts, path)
		info, err := os.Stat(from)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err == nil && info.IsDir():
			err = os.CopyFS(to, os.DirFS(from))
		case err == nil:
			var raw []byte
			if raw, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(to, raw, 0o600)
			}
		}
		if err != nil {
			h.t.Error(err)
		}
		found++
	}
	if found == 0 {
		h.t.Errorf("nothing is at %q", paths)
	}
}

// runAction runs the action of this repository.
func (h *hosted) runAction(with map[string]string) int {
	h.t.Helper()
	a := decoded[action](h.t, h.b.Read("ci/github/action.yml"))
	inputs := map[string]string{}
	for name, input := range a.Inputs {
		inputs[name] = input.Default
	}
	for name, value := range with {
		if _, is := inputs[name]; !is {
			h.t.Errorf("the action has no input %s", name)
		}
		inputs[name] = h.filled(value, nil)
	}
	for name, o := range a.Outputs {
		if o.Value != "${{ steps.outputs.outputs."+name+" }}" {
			h.t.Errorf("the output %s is %q", name, o.Value)
		}
	}
	for _, s := range a.Runs.Steps {
		if s.Shell != "bash" || strings.Contains(s.Run, "${{") {
			h.t.Errorf("a step has the shell %q, or a value in its script:\n%s", s.Shell, s.Run)
		}
	}
	return h.run(a.Runs.Steps, inputs)
}

// TestGitHub runs both workflows of the page, with the action of this repository. The second
// one has two fresh machines, and only the ticket passes between them.
func TestGitHub(t *testing.T) {
	t.Parallel()
	testkit.RequireTool(t, "docker")
	if os.Getenv("BEE_TEST_DOCKER_HOST") == "" {
		testkit.Missing(t, "a docker daemon at BEE_TEST_DOCKER_HOST (`make test` starts one)")
	}
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "--host", os.Getenv("BEE_TEST_DOCKER_HOST"), "rmi", image).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	farm := sshfarm.Start(t, 1)
	workflows := startedWith(blocks(t, "yml"), "on:")
	if len(workflows) != 2 {
		t.Fatalf("the page has %d workflows", len(workflows))
	}
	for _, text := range workflows {
		w := decoded[workflow](t, text)
		artifacts := t.TempDir()
		names := make([]string, 0, len(w.Jobs))
		for name := range w.Jobs {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return len(w.Jobs[a].Needs) - len(w.Jobs[b].Needs) })
		for i, name := range names {
			b := machine(t, farm)
			summary := b.File(".summary", "")
			h := &hosted{t: t, b: b, artifacts: artifacts, env: []string{
				"GITHUB_ACTIONS=true", "GITHUB_STEP_SUMMARY=" + summary, "GITHUB_OUTPUT=" + b.File(".output", ""), "GITHUB_ENV=" + b.File(".env", ""), "GITHUB_PATH=" + b.File(".path", ""),
				"GITHUB_WORKSPACE=" + b.Work, "GITHUB_ACTION_PATH=" + filepath.Join(b.Work, "ci", "github"), "RUNNER_TEMP=" + t.TempDir(),
			}}
			for variable, value := range w.Env {
				h.env = append(h.env, variable+"="+h.filled(value, nil))
			}
			ended := h.run(w.Jobs[name].Steps, nil)
			if i < len(names)-1 { // it is submitted
				if ended != 0 {
					t.Fatalf("job %s ended with %d", name, ended)
				}
				if got := b.Read(".output"); !regexp.MustCompile(`^run=[0-9a-z]+\nstate=suspended\nreport=\n$`).MatchString(got) {
					t.Errorf("the outputs after submit are %q", got)
				}
				continue
			}
			if ended != code {
				t.Errorf("job %s ended with %d", name, ended)
			}
			checkResults(t, b, h.printed)
			if b.Read(".summary") != b.Read("results/summary.md") {
				t.Errorf("the summary of the job is\n%s", b.Read(".summary"))
			}
			if got := b.Read(".output"); !regexp.MustCompile(`^run=[0-9a-z]+\nstate=failed\nreport=results/summary\.md\n$`).MatchString(got) {
				t.Errorf("the outputs are %q", got)
			}
			if stop, output := strings.Index(h.printed, "::stop-commands::"), strings.Index(h.printed, "::error::steps"); stop < 0 || output < stop {
				t.Errorf("the job can give commands to the runner:\n%s", h.printed)
			}
		}
	}
}

// TestWorkflowsByActionlint: GitHub takes the workflows of the page, and their inputs are those
// of the action.
func TestWorkflowsByActionlint(t *testing.T) {
	t.Parallel()
	lint := testkit.RequireTool(t, "actionlint")
	b := testkit.NewBee(t)
	if err := os.CopyFS(filepath.Join(b.Work, "ci"), os.DirFS(filepath.Join(testkit.Root(t), "ci"))); err != nil {
		t.Fatal(err)
	}
	b.File(".git/HEAD", "") // by which actionlint finds the repository, and the action
	ours := regexp.MustCompile(regexp.QuoteMeta(ourAction) + `[v.0-9]+`)
	for i, text := range append(startedWith(blocks(t, "yml"), "on:"), "on: push\njobs:\n  wrong:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: "+ourAction+"v0\n        with: {jobs: x}\n") {
		file := b.File(".github/workflows/"+string(rune('a'+i))+".yml", ours.ReplaceAllString(text, "./ci/github"))
		ended, printed := execute(t, b, nil, lint, "-no-color", "-shellcheck=", "-pyflakes=", file)
		if wrong := strings.Contains(text, "wrong:"); wrong != (ended != 0) {
			t.Errorf("actionlint ended with %d:\n%s", ended, printed)
		}
	}
}
