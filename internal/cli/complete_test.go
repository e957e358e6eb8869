package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestCompletion(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running}, state.Run{ID: "bbbb2222", Name: "md", State: state.Succeeded})
	t.Setenv("SLURM_JOB_ID", "")
	t.Setenv("BEE_SITES", beefile(t, "sites: [{name: lab, provider: local}, {name: rack, provider: ssh, hosts: [n1]}]\n"))
	for line, want := range map[string]string{
		"stop ":          "pi",
		"stop pi ":       "",
		"stop aaa":       "aaaa1111",
		"stop p":         "pi",
		"exec ":          "pi",
		"exec aaaa1111 ": "",
		"rm ":            "md",
		"show ":          "md pi",
		"run --site ":    "lab rack",
		"plan --site ":   "lab rack",
		"resume --site ": "lab rack",

		"help image l": "ls",
		"help beef":    "beefile",
		"help tro":     "troubleshooting",

		"bench run la":         "layers",
		"bench plan la":        "layers",
		"run --pull ":          "always missing never",
		"run --after ":         "md pi",
		"--color ":             "always auto never",
		"bench run --size ":    "here paper smoke",
		"bench plan --method ": "beserra2016 published robust",
		"bench run --better ":  "higher lower",

		"ps --state failed,s": "failed,stopped failed,succeeded failed,suspended",
	} {
		words := strings.Split("__complete "+line, " ")
		if err := d.bee(words...); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var got []string
		for l := range strings.Lines(d.out.String()) {
			if word, _, _ := strings.Cut(strings.TrimSpace(l), "\t"); !strings.HasPrefix(word, ":") {
				got = append(got, word)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestCompletionShowsNoQuotes, by which help names the values of flags.
func TestCompletionShowsNoQuotes(t *testing.T) {
	var out bytes.Buffer
	a := newApp(&out, io.Discard)
	root := a.newRoot()
	root.SetOut(&out)
	root.SetErr(io.Discard)
	code := a.execute(t.Context(), root, []string{"__complete", "run", "--"})
	if code != 0 || strings.Contains(out.String(), "`") || !strings.Contains(out.String(), "--name\t") {
		t.Errorf("%d: %s", code, out.String())
	}
}

// TestBashCompletesAlone: a bash without the package bash-completion has words of bee, also behind
// a = within a word, and prints nothing.
func TestBashCompletesAlone(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	dir, d := t.TempDir(), newDesk(t)
	if err := d.bee("completion", "bash"); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "completion")
	if err := os.WriteFile(script, d.out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{"bee sto": "__complete sto|stop", "bee stop ": "__complete stop |stop", "bee --color=al": "__complete --color=al|", "bee image show a:": "__complete image show a:|"} {
		c := exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-c", `source "$1"
bee() { echo "$*" >asked; printf 'stop\tStop runs\n:4\n'; }
COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_KEY=9 COMP_WORDS=($2) COMP_CWORD=1
__start_bee
echo "$(<asked)|${COMPREPLY[*]%% *}"`, "bash", script, line)
		c.Dir = dir
		var errs bytes.Buffer
		c.Stderr = &errs
		out, err := c.Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want || strings.Contains(errs.String(), "not found") {
			t.Errorf("%q: %v, got %q, want %q; %s", line, err, got, want, errs.String())
		}
	}
}

// TestHelpAboutTopics: a topic is a page, in the width of a terminal and elsewhere.
func TestHelpAboutTopics(t *testing.T) {
	t.Setenv("TERM", "xterm")
	d := newDesk(t)
	if err := d.bee("help", "exit-codes"); err != nil || !strings.Contains(d.out.String(), "`bee help json`") || strings.Contains(d.out.String(), "\x1b") {
		t.Errorf("%v: %q", err, d.out.String())
	}
	if text := d.onPTY(40, "help", "exit-codes"); !strings.Contains(text, "\x1b[1mbee help json\x1b[0m") || strings.Contains(text, strings.Repeat("-", 41)) {
		t.Errorf("on a terminal: %q", text)
	}
	if err := d.bee("help", "Beefile"); err != nil || !strings.Contains(d.out.String(), "ranks_per_node") {
		t.Errorf("%v: %q", err, d.out.String())
	}
	for _, words := range [][]string{{"help", "exit-codes", "x"}, {"help", "no-topic"}} {
		if err := d.bee(words...); !core.IsKind(err, core.Invalid) {
			t.Errorf("%q: %v", words, err)
		}
	}
}

func TestImagesAreCompleted(t *testing.T) {
	archive, bee := testkit.Busybox(t, v1.Config{}), imageCommand(t)
	bee("image", "import", archive)
	for _, command := range []string{"show", "push", "rm"} {
		if words := bee("__complete", "image", command, ""); !strings.HasPrefix(words, "bee.test/busybox:1\n") {
			t.Errorf("image %s: %s", command, words)
		}
	}
}

// TestRunsAreCompletedByName, where a name means one run.
func TestRunsAreCompletedByName(t *testing.T) {
	runs := []state.Run{ // newest first
		{ID: "eeee", Name: "md", State: state.Running},
		{ID: "dddd", Name: "pi", State: state.Suspended},
		{ID: "cccc", Name: "pi", State: state.Queued},
		{ID: "bbbb", Name: "md", State: state.Succeeded},
		{ID: "aaaa", Name: "old", State: state.Failed},
	}
	for _, c := range []struct {
		why   state.Meaning
		begun string
		want  []string
	}{
		{state.ToSee, "", []string{"md\trunning, eeee", "pi\tsuspended, dddd", "cccc\tqueued, pi", "bbbb\tsucceeded, md", "old\tfailed, aaaa"}},
		{state.ToSee, "e", []string{"eeee\trunning, md"}},
		{state.ToSee, "p", []string{"pi\tsuspended, dddd"}},
		{state.ToEnd, "", []string{"md\trunning, eeee", "dddd\tsuspended, pi", "cccc\tqueued, pi"}},
		{state.ToForget, "", []string{"bbbb\tsucceeded, md", "old\tfailed, aaaa"}},
	} {
		if got := workspace.RunWords(runs, c.why, c.begun); !slices.Equal(got, c.want) {
			t.Errorf("%v %q: got %q, want %q", c.why, c.begun, got, c.want)
		}
	}
}
