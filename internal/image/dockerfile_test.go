package image

import (
	"slices"
	"strings"
	"testing"
)

func TestBasesOfADockerfile(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"one", "FROM debian:12\nRUN true\n", "debian:12"},
		{"none", "FROM scratch\nCOPY a /\n", ""},
		{"nothing at all", "\n# FROM a\n", ""},
		{"in any case, and over lines", "# a comment = none\nfrom \\\n  # said within\n\n  registry.example.org:5000/a/b:1 \\\n  as x\r\n", "registry.example.org:5000/a/b:1"},
		{"another sign for what goes on", "# escape=`\nFROM `\n a\n", "a"},
		{"its syntax", "#syntax = docker/dockerfile:1 more\nFROM a", "docker/dockerfile:1 a"},
		{"no syntax, as it comes late", "\n# syntax=docker/dockerfile:1\nFROM a", "a"},
		{"stages", "FROM a AS Build\nFROM b AS test\nFROM build AS c\nFROM scratch\nCOPY --from=c --chown=1 x /\nCOPY --from=f:1 x /\nRUN --mount=type=bind,from=g,target=/g true --from=no", "a f:1 g"},
		{"a stage by number", "FROM a\nFROM b\nFROM c\nCOPY --from=1 x /", "b c"},
		{"a stage of its image's name", "FROM debian AS debian\nFROM debian", "debian"},
		{"arguments", "ARG V=11\nARG R=\"x.org/\" W\nFROM ${R}debian:${V} AS base\nARG N=9\nFROM base\nCOPY --from=o:$V a b", "x.org/debian:12"},
		{"defaults", "ARG V\nFROM a:${V:-1}${W:-2}${R:+3}", "a:122"},
		{"what nobody sets", "FROM a:$N", ""},
		{"platforms", "FROM --platform=$BUILDPLATFORM a AS x\nFROM --platform=linux/s390x b AS y\nFROM --platform=linux/amd64 c\nCOPY --from=x . .\nCOPY --from=y . .", "a c"},
		{"by digest", "FROM debian@sha256:" + strings.Repeat("0", 64), ""},
		{"here-documents", "FROM a\nRUN <<-EOF cat <<B\nFROM no\n\tEOF\nFROM no\nB\nRUN echo $((1<<2)) <<UNENDED\nCOPY --from=b x y", "a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(bases(c.text, "linux/amd64", map[string]string{"V": "12"}), " ")
			if got != c.want {
				t.Errorf("it has %q, not %q", got, c.want)
			}
		})
	}
}

func FuzzBasesOfADockerfile(f *testing.F) {
	f.Add("# syntax=a\nARG A=b\nFROM ${A:-c} AS d\nRUN --mount=from=d <<E\nE\nCOPY --from=0 a b")
	f.Fuzz(func(t *testing.T, text string) {
		for _, ref := range bases(text, "linux/amd64", nil) {
			if ref == "" || slices.Contains(strings.Fields(ref), "scratch") {
				t.Errorf("a base %q", ref)
			}
		}
	})
}
