package spec

import (
	"fmt"
	"strings"
	"time"
)

// build finds what cannot be in a build.
func (jc *jobCheck) build(b *Build) {
	switch {
	case !jc.report.allRead("build.context", "build.debian"):
	case b.Context == "" && b.Debian == "":
		jc.report.at("build", "", "build: give a directory with a Dockerfile, or `debian:` with a suite")
	case b.Context != "" && b.Debian != "":
		jc.report.atKey("build.debian", "", "build: `context` and `debian` exclude each other")
	}
	switch {
	case !jc.report.allRead("build.context", "build.debian") || b.Context != "" && b.Debian != "":
	case b.Debian != "":
		jc.onlyFor("a build by a Dockerfile", "dockerfile", "args", "builder")
	case b.Context != "":
		jc.onlyFor("a build of Debian packages", "packages", "slim", "mirror", "snapshot", "copy", "run", "env", "workdir", "entrypoint", "cmd")
	}
	if b.Debian != "" && !fits("build.debian", b.Debian) {
		jc.report.at("build.debian", "such as bookworm", "build.debian: %q is no name of a suite", b.Debian)
	}
	if b.Mirror != "" && !fits("build.mirror", b.Mirror) { // mmdebstrap would take it for an option or a file of sources
		jc.report.at("build.mirror", "such as https://deb.debian.org/debian", "build.mirror: %q is no URL of a mirror", b.Mirror)
	}
	if _, err := b.SnapshotTime(); b.Snapshot != "" && err != nil {
		jc.report.at("build.snapshot", "such as 20250520T000000Z", "build.snapshot: %q is no date", b.Snapshot)
	}
	jc.report.oneOf("build.builder", b.Builder)
	jc.packages("build.packages", b.Packages)
	for i, c := range b.Copy {
		jc.copySides(fmt.Sprintf("build.copy[%d]", i), c, c.To, "to")
	}
	for key := range b.Env {
		jc.variable("build.env", key)
	}
}

// Engines are the words of Build.Builder for programs of this host, which have their
// names, in order of preference.
func Engines() []string { return []string{"buildah", "podman", "docker"} }

// BuilderVM is the further word, for a virtual machine.
const BuilderVM = "vm"

// onlyFor refuses keys of one kind of build in the other, which has no use for
// them.
func (jc *jobCheck) onlyFor(kind string, keys ...string) {
	for _, key := range keys {
		if _, given := jc.report.places["build."+key]; given {
			jc.report.atKey("build."+key, "", "build.%s: only %s has it", key, kind)
		}
	}
}

// SnapshotTime is the moment that Snapshot names.
func (b Build) SnapshotTime() (time.Time, error) { return time.Parse("20060102T150405Z", b.Snapshot) }

// packages finds what apt would take for an option, or mmdebstrap for several
// packages; a pattern of apt's may have blanks and commas.
func (jc *jobCheck) packages(at string, packages []string) {
	for i, p := range packages {
		switch at := fmt.Sprintf("%s[%d]", at, i); {
		case !jc.report.wasRead(at):
		case IsPackage(p):
		case strings.ContainsAny(p, separators):
			jc.report.at(at, "one name for each element of the list", "%s: %q is no name of a package", at, p)
		default:
			jc.report.at(at, "", "%s: %q is no name of a package", at, p)
		}
	}
}

// separators stand between packages where apt and mmdebstrap take several.
const separators = " \t\n,"

// IsPackage reports whether a text can name a package, or be one of apt's patterns, in
// which there may be anything.
func IsPackage(p string) bool {
	return p != "" && strings.IndexByte("-./", p[0]) < 0 && (strings.IndexByte("?~!(", p[0]) >= 0 || !strings.ContainsAny(p, separators))
}

// IsSuite reports whether a text can name a suite of Debian's.
func IsSuite(s string) bool { return fits("build.debian", s) }
