package launch

import (
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestCommandsAreThoseOfDockerRun has every ENTRYPOINT and CMD of an image meet every
// form of `entrypoint` and `run`. Only the shell removes quotes.
func TestCommandsAreThoseOfDockerRun(t *testing.T) {
	entry, cmd := []string{"/entry", "-e"}, []string{"cmd", "a b"}
	both := core.ImageConfig{Entrypoint: entry, Cmd: cmd}
	shell := func(s string) []string { return []string{"/bin/sh", "-c", s} }
	argv := func(parts ...[]string) []string { return slices.Concat(parts...) }
	const neither = ""
	for _, c := range []struct {
		name, beefile string
		image         core.ImageConfig
		want          []string // nil: there is no command
	}{
		{"nothing at all", neither, core.ImageConfig{}, nil},
		{"CMD", neither, core.ImageConfig{Cmd: cmd}, cmd},
		{"ENTRYPOINT", neither, core.ImageConfig{Entrypoint: entry}, entry},
		{"ENTRYPOINT and CMD", neither, both, argv(entry, cmd)},

		{"string", "run: app -x", core.ImageConfig{}, shell("app -x")},
		{"string for CMD", "run: app -x", core.ImageConfig{Cmd: cmd}, shell("app -x")},
		{"string for ENTRYPOINT", "run: app -x", core.ImageConfig{Entrypoint: entry}, argv(entry, shell("app -x"))},
		{"string for both", "run: app -x", both, argv(entry, shell("app -x"))},
		{"list", "run: [app, -x]", core.ImageConfig{}, []string{"app", "-x"}},
		{"list for CMD", "run: [app, -x]", core.ImageConfig{Cmd: cmd}, []string{"app", "-x"}},
		{"list for ENTRYPOINT", "run: [app, -x]", core.ImageConfig{Entrypoint: entry}, argv(entry, []string{"app", "-x"})},
		{"list for both", "run: [app, -x]", both, argv(entry, []string{"app", "-x"})},

		{"other entrypoint voids CMD", "entrypoint: [/other, -o]", both, []string{"/other", "-o"}},
		{"other entrypoint, string", "entrypoint: [/other, -o]\nrun: app -x", both, argv([]string{"/other", "-o"}, shell("app -x"))},
		{"other entrypoint, list", "entrypoint: [/other, -o]\nrun: [app, -x]", both, []string{"/other", "-o", "app", "-x"}},
		{"other entrypoint for none", "entrypoint: [/other]\nrun: [app]", core.ImageConfig{Cmd: cmd}, []string{"/other", "app"}},
		{"entrypoint by the shell", "entrypoint: exec /other \"$0\" \"$@\"\nrun: [app, -x]", both, argv(shell(`exec /other "$0" "$@"`), []string{"app", "-x"})},
		{"no entrypoint voids CMD", "entrypoint: []", both, nil},
		{"no entrypoint, string", "entrypoint: []\nrun: app -x", both, shell("app -x")},
		{"no entrypoint, list", "entrypoint: []\nrun: [app, -x]", both, []string{"app", "-x"}},

		{"quotes of a string are the shell's", `run: 'app "a b" ''c d'' $HOME \ e; #f'`, core.ImageConfig{}, shell(`app "a b" 'c d' $HOME \ e; #f`)},
		{"quotes in a list are nobody's", `run: [app, "a b", '"c d"', '$HOME', "\\ e", "", "*", "g\nh"]`, core.ImageConfig{}, []string{"app", "a b", `"c d"`, "$HOME", `\ e`, "", "*", "g\nh"}},
		{"lines of a string stay lines", "run: |\n  cd x\n  app", core.ImageConfig{}, shell("cd x\napp\n")},
		{"numbers of a list are words", "run: [app, 1, 2.50, true]", core.ImageConfig{}, []string{"app", "1", "2.50", "true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			job, err := spec.ParseJob("job.yaml", []byte("image: i\n"+c.beefile+"\n"), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			p, err := MakePlan(job, state.Run{}, core.Image{Config: c.image}, nil, nil, false, placement.Margin{})
			if c.want == nil {
				if !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
					t.Errorf("%v, want that there is no command, and a remedy", err)
				}
				return
			}
			if err != nil || !slices.Equal(p.Run, c.want) {
				t.Errorf("got %q, %v\nwant %q", p.Run, err, c.want)
			}
			if !slices.Equal(both.Entrypoint, []string{"/entry", "-e"}) || !slices.Equal(both.Cmd, []string{"cmd", "a b"}) {
				t.Errorf("the image's own were changed: %q", both)
			}
		})
	}
}
