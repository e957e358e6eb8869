package spec

import (
	"strings"
	"testing"
)

func TestKindsOfFiles(t *testing.T) {
	for text, want := range map[string]Kind{
		"image: a\nrun: b\n": KindBeefile, "build: .\n": KindBeefile, "{}": KindBeefile, "": KindBeefile, "a: [": KindBeefile, "sites: [a, b]\nimage: x\n": KindBeefile,
		"#!/usr/bin/env -S bee run\nimage: a\n":                 KindBeefile,
		"sites:\n- {name: a, provider: local}\n":                KindSites,
		"services: {a: {image: b}}\n":                           KindCompose,
		"apiVersion: v1\nkind: Job\n":                           KindKubernetes,
		"resources: {accelerators: A100}\nrun: x\n":             KindSkyPilot,
		"#!/bin/bash\n#SBATCH -N 2\nsrun ./a\n":                 KindBatch,
		"#!/bin/sh\n./a\n":                                      KindScript,
		"# syntax=docker/dockerfile:1\n\nFROM debian:12\n":      KindDockerfile,
		"ARG X=1\nFROM debian:$X\n":                             KindDockerfile,
		"Bootstrap: docker\nFrom: debian:12\n":                  KindDefinition,
		"docker run --rm -it debian:12 ls\n":                    KindScript,
		"sites: [{name: a, provider: local}]\nimage: debian\n":  KindBeefile,
		"# image of the job\nimage: a # FROM nowhere\nrun: x\n": KindBeefile,
	} {
		if got := KindOf("file", []byte(text)); got != want {
			t.Errorf("%q: %s, expected %s", text, got, want)
		}
	}
	for file, text := range map[string]string{"app": strings.Repeat("\x00", 257) + "ustar", "app.tar.gz": "\x1f\x8b\x08\x00"} {
		if got := KindOf(file, []byte(text)); got != KindArchive {
			t.Errorf("%s: %s", file, got)
		}
	}
	if got := KindOf("job.tar", []byte("image: a\n")); got != KindBeefile {
		t.Errorf("a Beefile of that name: %s", got)
	}
	if got := KindOf("app/Dockerfile.gpu", []byte("# nothing\n")); got != KindDockerfile {
		t.Errorf("by its name: %s", got)
	}
}

func TestNearestWord(t *testing.T) {
	words := []string{"image", "name", "gpus", "user", "memory", "workdir", "from", "checkpoint"}
	for word, want := range map[string]string{"imgae": "image", "nmae": "name", "form": "from", "time": "", "cpus": "gpus", "chekpiont": "checkpoint", "partition": "", "mem": "memory", "use": "user", "wrkdri": "workdir", "x": ""} {
		if got := nearest(word, words); got != want {
			t.Errorf("%s: %q, expected %q", word, got, want)
		}
	}
}
