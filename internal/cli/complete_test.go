package cli

import (
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
