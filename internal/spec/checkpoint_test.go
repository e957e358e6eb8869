package spec

import (
	"slices"
	"strings"
	"testing"
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
	for text, want := range map[string]string{
		"checkpoint: {mode: vm}":                                                                        "the job has none",
		"vm: false\ncheckpoint: {mode: vm}":                                                             "the job has none",
		"vm: auto\ncheckpoint: {mode: vm}":                                                              "on every site",
		"vm: true\ncheckpoint: {mode: machine}":                                                         "checkpoint.mode",
		"vm: true\ncheckpoint: {mode: vm, signal: TERM}":                                                "not asked to save itself",
		"vm: true\ncheckpoint: {mode: vm, paths: [/v/a]}":                                               "checkpoint.paths",
		"vm: true\ncheckpoint: {mode: vm}\nresume: x":                                                   "continues by itself",
		"vm: {fabric: none}\nnodes: 2\ncheckpoint: {mode: vm}":                                          "own network",
		"vm: {fabric: none}\nnodes: 2\ncheckpoint: {mode: auto}":                                        "own network",
		"vm: true\ncheckpoint: {mode: vm}\ninputs: [{from: a, to: /a}]\noutputs: [{from: /a/b, to: .}]": "lies outside the volume",
	} {
		if _, err := ParseJob("j.yaml", []byte("image: x\nvolume: /v\n"+text), "/d"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPathsOfACheckpointStartAtTheWorkdir, as they do for the job itself.
func TestPathsOfACheckpointStartAtTheWorkdir(t *testing.T) {
	j, err := ParseJob("j.yaml", []byte("image: x\nvolume: /v\nworkdir: /v/a\ncheckpoint: {file: STOP, paths: ['*.cpt', /v//b, ../c]}"), "/d")
	if err != nil || j.Checkpoint.File != "/v/a/STOP" || !slices.Equal(j.Checkpoint.Paths, []string{"/v/a/*.cpt", "/v/b", "/v/c"}) {
		t.Fatalf("%+v, %v", j, err)
	}
	for text, want := range map[string]string{
		"checkpoint: {file: STOP}":                                               "checkpoint.file: STOP does not lie in the volume",
		"checkpoint: {paths: [a]}":                                               "checkpoint.paths[0]: a does not lie in the volume",
		"workdir: /w\ncheckpoint: {file: STOP}":                                  "checkpoint.file: STOP",
		"workdir: /v\ncheckpoint: {file: ../STOP}":                               "checkpoint.file: ../STOP",
		"checkpoint: {file: /v}":                                                 "checkpoint.file: /v does",
		"inputs: [{from: a, to: /in}]\ncheckpoint: {file: /in/STOP}":             "checkpoint.file: /in/STOP",
		"inputs: [{from: a, to: /in}]\ncheckpoint: {paths: ['/in/*.cpt']}":       "checkpoint.paths[0]: /in/*.cpt does not lie in the volume",
		"workdir: /v\ncheckpoint: {paths: [../../etc/passwd, '*.cpt', '/v/[a']}": "checkpoint.paths[0]: ../../etc/passwd",
	} {
		if _, err := ParseJob("j.yaml", []byte("image: x\nvolume: /v\n"+text), "/d"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
