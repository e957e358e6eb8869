package spec

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestADockerfileThatReadsElsewhere: a Dockerfile's images of this machine are reported by
// their lines, in every notation of builders.
func TestADockerfileThatReadsElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		text, args, file string
		line             int // 0: it reads nothing, -1: it cannot be checked
	}{
		"a registry":                    {text: "FROM debian:12\nFROM --platform=$BUILDPLATFORM quay.io/x/y@sha256:" + strings.Repeat("0", 64) + " AS a\nCOPY --from=0 /a /b\nCOPY --from=a /a /b\n"},
		"a registry by its transport":   {text: "FROM docker://debian:12\n"},
		"a stage of a transport's name": {text: "FROM a AS oci\nFROM oci\nCOPY --from=oci /x /y\n"},
		"a layout in the context":       {text: "FROM oci:./layout:12\n"},
		"a file in the context":         {text: "FROM docker-archive:base.tar\n"},
		"a version of its own":          {text: "ARG V=12\nFROM debian:$V\n"},
		"words in a comment":            {text: "# FROM oci:/etc\nFROM scratch\n"},
		"an archive":                    {text: "FROM scratch\n\nFROM docker-archive:/home/ann/x.tar\n", line: 3},
		"a layout":                      {text: "FROM oci:/var/x:tag\n", line: 1},
		"an archive of a layout":        {text: "FROM oci-archive:../../x.tar\n", line: 1},
		"a directory":                   {text: "FROM dir:/etc\n", line: 1},
		"a link in the context":         {text: "FROM dir:link\n", line: 1},
		"a hidden file":                 {text: "FROM docker-archive:.git/x.tar\n", line: 1},
		"an image of the user's":        {text: "FROM containers-storage:secret\n", line: 1},
		"one of the daemon":             {text: "FROM docker-daemon:secret:1\n", line: 1},
		"a copy":                        {text: "FROM scratch\nCOPY --chown=1 --from=dir:/etc / /\n", line: 2},
		"a mount":                       {text: "FROM a\nRUN --mount=type=bind,from=oci:/x,target=/y true\n", line: 2},
		"on a later build":              {text: "FROM a\nONBUILD COPY --from=dir:/etc / /\n", line: 2},
		"small letters and spaces":      {text: "  from \t --platform=linux/amd64   oci:/x\n", line: 1},
		"quotes":                        {text: "FROM \"oc\"'i':/x\n", line: 1},
		"a backslash":                   {text: "FROM o\\ci:/x\n", line: 1},
		"a word over two lines":         {text: "FROM oc\\\ni:/x\n", line: 1},
		"over lines with a comment":     {text: "FROM \\\n# no\n\n  oci:/x\n", line: 1},
		"another escape":                {text: "# escape=`\nFROM oc`\ni:/x\n", line: 2},
		"no continuation by a backtick": {text: "FROM a\nRUN echo `\nFROM oci:/x\n", line: 3},
		"in what may be a document":     {text: "FROM a\nRUN <<X\nFROM oci:/x\nX\n", line: 3},
		"line ends of Windows":          {text: "FROM a\r\nFROM oci:/x\r\n", line: 2},
		"an argument":                   {text: "ARG A=oci\nARG B=$A:/x\nFROM ${B}\n", line: 3},
		"an argument of the Beefile":    {text: "ARG A=debian\nFROM $A\n", args: "oci:/x", line: 2},
		"one that nobody sets":          {text: "FROM ${NO}oci:/x\n", line: 1},
		"a rule":                        {text: "FROM ${A:-oci:/x}\n", line: 1},
		"a rule in an argument":         {text: "ARG A=${B-oci:/x}\nFROM $A\n", line: 2},
		"a variable of an image":        {text: "FROM evil\nCOPY --from=$X / /\n", line: 2},
		"an argument that changes":      {text: "ARG A=oci:/x\nFROM $A\nARG A=debian\n", line: 2},
		"an argument of a stage":        {text: "ARG A=debian\nFROM $A\nARG A=oci:/x\nFROM $A\n", line: 4},
		"an argument used again":        {text: "ARG A=debian\nFROM $A\nARG A\nFROM $A\n"},
		"a preprocessor":                {text: "FROM a\n#include \"/etc/passwd\"\n", file: "Dockerfile.in", line: -1},
		"a FIFO":                        {file: "fifo", line: -1},
		"a huge file":                   {text: strings.Repeat("#", maxDockerfile+1), line: -1},
	} {
		t.Run(name, func(t *testing.T) {
			_, dir := own(t)
			for _, f := range []string{"context/layout", "context/.git"} {
				if err := os.MkdirAll(filepath.Join(dir, f), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for f, text := range map[string]string{"Dockerfile": c.text, "Dockerfile.in": c.text, "base.tar": "", ".git/x.tar": ""} {
				if err := os.WriteFile(filepath.Join(dir, "context", f), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("/etc", filepath.Join(dir, "context/link")); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(filepath.Join(dir, "context/fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
			file := cmp.Or(c.file, "Dockerfile")
			text := "run: x\nbuild: {context: context, dockerfile: " + file
			if c.args != "" {
				text += ", args: {A: '" + c.args + "'}"
			}
			job, err := ParseJob("job.yaml", []byte(text+"}\n"), dir)
			if err != nil {
				t.Fatal(err)
			}
			got, does := job.Reaches(dir), fmt.Sprintf("in line %d", c.line)
			if c.line == 0 && len(got) > 0 || c.line != 0 && (len(got) == 0 || got[0].Key != "build.dockerfile" || strings.HasSuffix(got[0].Does, does) != (c.line > 0)) {
				t.Errorf("it reaches %v, want line %d", got, c.line)
			}
		})
	}
}
