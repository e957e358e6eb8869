package spec

import (
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestWhoSavesTheJob(t *testing.T) {
	for text, want := range map[string]bool{
		"vm: true\ncheckpoint: {}":                                       false,
		"vm: true\ncheckpoint: {mode: app}":                              false,
		"vm: true\ncheckpoint: {mode: vm}":                               true,
		"vm: {cpus: 2}\nnodes: 2\ncheckpoint: {mode: vm, every: 1h}":     true,
		"vm: true\ncheckpoint: {mode: auto}":                             true,
		"vm: auto\ncheckpoint: {mode: auto}":                             false,
		"checkpoint: {mode: auto}":                                       false,
		"vm: true\ncheckpoint: {mode: auto, signal: USR1}":               false,
		"vm: true\ncheckpoint: {mode: auto}\nresume: x":                  false,
		"vm: true\ncheckpoint: {mode: auto, paths: [/v/a]}":              false,
		"vm: true\noutputs: [{from: /v/*, to: .}]\ncheckpoint: {}":       false,
		"vm: {fabric: none}\nnodes: 1\ncheckpoint: {mode: vm}\nrun: x":   true,
		"vm: false\ncheckpoint: {mode: auto, file: /v/STOP}\nrun: y":     false,
		"vm: true\ncheckpoint: {mode: vm}\noutputs: [{from: /v, to: .}]": true,
	} {
		j, err := ParseJob("j.yaml", []byte("image: x\nvolume: /v\n"+text), "/d")
		if err != nil || j.SavesVM() != want {
			t.Errorf("%s: %v, %v", text, err == nil && j.SavesVM(), err)
		}
	}
	var refused testkit.ErrorList
	for _, text := range []string{
		"checkpoint: {mode: vm}",
		"vm: false\ncheckpoint: {mode: vm}",
		"vm: auto\ncheckpoint: {mode: vm}",
		"vm: true\ncheckpoint: {mode: machine}",
		"vm: true\ncheckpoint: {mode: vm, signal: TERM}",
		"vm: true\ncheckpoint: {mode: vm, paths: [/v/a]}",
		"vm: true\ncheckpoint: {mode: vm}\nresume: x",
		"vm: {fabric: none}\nnodes: 2\ncheckpoint: {mode: vm}",
		"vm: {fabric: none}\nnodes: 2\ncheckpoint: {mode: auto}",
		"vm: true\ncheckpoint: {mode: vm}\ninputs: [{from: a, to: /a}]\noutputs: [{from: /a/b, to: .}]",
	} {
		_, err := ParseJob("j.yaml", []byte("image: x\nvolume: /v\n"+text), "/d")
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", text, err)
		}
		refused.Add(text, err)
	}
	refused.Compare(t, "checkpoint-mode")
}

// TestPathsOfACheckpointStartAtTheWorkdir, as they do for the job itself.
func TestPathsOfACheckpointStartAtTheWorkdir(t *testing.T) {
	j, err := ParseJob("j.yaml", []byte("image: x\nvolume: /v\nworkdir: /v/a\ncheckpoint: {file: STOP, paths: ['*.cpt', /v//b, ../c]}"), "/d")
	if err != nil || j.Checkpoint.File != "/v/a/STOP" || !slices.Equal(j.Checkpoint.Paths, []string{"/v/a/*.cpt", "/v/b", "/v/c"}) {
		t.Fatalf("%+v, %v", j, err)
	}
	var refused testkit.ErrorList
	for _, text := range []string{
		"checkpoint: {file: STOP}",
		"checkpoint: {paths: [a]}",
		"workdir: /w\ncheckpoint: {file: STOP}",
		"workdir: /v\ncheckpoint: {file: ../STOP}",
		"checkpoint: {file: /v}",
		"inputs: [{from: a, to: /in}]\ncheckpoint: {file: /in/STOP}",
		"inputs: [{from: a, to: /in}]\ncheckpoint: {paths: ['/in/*.cpt']}",
		"workdir: /v\ncheckpoint: {paths: [../../etc/passwd, '*.cpt', '/v/[a']}",
	} {
		_, err := ParseJob("j.yaml", []byte("image: x\nvolume: /v\n"+text), "/d")
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", text, err)
		}
		refused.Add(text, err)
	}
	refused.Compare(t, "checkpoint-paths")
}
