package ci

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// solverImage is an image with the programs of the pipeline of three jobs, as an archive.
func solverImage(t *testing.T) string {
	t.Helper()
	plot, err := os.ReadFile(filepath.Join("testdata", "plot.awk"))
	if err != nil {
		t.Fatal(err)
	}
	layer := testkit.NewLayer(t)
	layer.Busybox("bin", "sh echo cat sleep printf awk")
	for name, text := range map[string]string{
		"app/mesh":     "#!/bin/sh\necho \"cells $1\" >mesh.dat\n",
		"app/solve":    "#!/bin/sh\nread word cells <mesh.dat\nsleep 5\necho \"$1 $(($1 * cells))\" >force.dat\n",
		"app/plot":     "#!/bin/sh\nprintf \"$(cat cases/*/force.dat | awk -f /app/plot.awk)\" >plot.png\n",
		"app/plot.awk": string(plot),
	} {
		layer.Add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, []byte(text))
	}
	return layer.Archive("app:1", v1.Config{Env: []string{"PATH=/bin"}})
}

// TestThreeJobs runs the pipeline of the page from its mesh to its plot, by gitlab-ci-local. The
// array is submitted on one machine and fetched on another one with an empty home, and only
// artifacts pass. The plot is in the report.
func TestThreeJobs(t *testing.T) {
	t.Parallel()
	local := testkit.RequireTool(t, "gitlab-ci-local")
	farm := sshfarm.Start(t, 3)
	image := solverImage(t)
	var file string
	beefiles := map[string]string{}
	for _, text := range startedWith(blocks(t, "yml"), "include:") {
		if strings.Contains(text, "job: array.yaml") {
			file = strings.NewReplacer(".bee-0.1.0/bin/bee", testkit.Binary(t)).Replace(regexp.MustCompile(`remote: https://\S+/ci/gitlab/`).ReplaceAllString(text, "local: ci/gitlab/"))
		}
	}
	for _, text := range startedWith(blocks(t, "yaml"), "name:") {
		if name, _, _ := strings.Cut(strings.TrimPrefix(text, "name: "), "\n"); strings.Contains(text, "/app/") && name != "nightly" {
			beefiles[name+".yaml"] = strings.Replace(text, "registry.example.org/you/app:1", "docker-archive:"+image, 1)
		}
	}
	if file == "" || len(beefiles) != 3 {
		t.Fatalf("the page has the pipeline %q and %d Beefiles for it", file, len(beefiles))
	}
	job := func() (*testkit.Bee, func(jobs ...string) string) {
		b := testkit.NewBee(t)
		b.Env = append(append(b.Env, farm.Env()...), "BEE_TICKET_KEY=", "BEE_SITES=", "CI=true")
		b.File("sites.yaml", "sites:\n  - {name: cluster, provider: ssh, hosts: ["+strings.Join(farm.Names, ", ")+"], scratch: "+farm.Private+", slots: 2}\n")
		for name, text := range beefiles {
			b.File(name, text)
		}
		b.File(".gitlab-ci.yml", file)
		if err := os.CopyFS(filepath.Join(b.Work, "ci"), os.DirFS(filepath.Join(testkit.Root(t), "ci"))); err != nil {
			t.Fatal(err)
		}
		if ended, _ := execute(t, b, nil, "sh", "-ec", "git init -q . && git add -A && git -c user.name=a -c user.email=a@example.org commit -qm application"); ended != 0 {
			t.Fatal("there is no repository")
		}
		keyFile := b.File("ssh-key", "a key")
		return b, func(jobs ...string) string {
			t.Helper()
			ended, printed := execute(t, b, nil, local, append([]string{
				"--force-shell-executor", "--no-color", "--no-json-schema-validation", "--variable", "SSH_KEY=" + keyFile, "--variable", "SSH_KNOWN_HOSTS=" + keyFile, "--variable", "BEE_TICKET_KEY=" + key,
			}, jobs...)...)
			if ended != 0 {
				t.Fatalf("jobs %q ended with %d", jobs, ended)
			}
			return lines(printed)
		}
	}
	first, run := job()
	run("mesh", "array-submit")
	if strings.Contains(first.Read("run.ticket"), "force") {
		t.Error("the ticket can be read")
	}
	second, run := job()
	pass(t, first, second, "run.ticket")
	if err := os.CopyFS(filepath.Join(second.Work, "cases"), os.DirFS(filepath.Join(first.Work, "cases"))); err != nil {
		t.Fatal(err)
	}
	run("array-wait", "plot")
	for _, speed := range []string{"1", "2", "3"} {
		if got, want := second.Read("cases/"+speed+"/force.dat"), speed+" "+map[string]string{"1": "3", "2": "6", "3": "9"}[speed]+"\n"; got != want {
			t.Errorf("the output of case %s is %q", speed, got)
		}
	}
	if got := second.Read("cases/junit.xml"); !strings.Contains(got, `tests="3" failures="0" errors="0"`) {
		t.Errorf("the tests of the array are\n%s", got)
	}
	found := regexp.MustCompile(`src="data:image/png;base64,([^"]*)"`).FindStringSubmatch(second.Read("plot/report.html"))
	if found == nil {
		t.Fatalf("the plot is not in the report:\n%s", second.Read("plot/report.html"))
	}
	raw, err := base64.StdEncoding.DecodeString(found[1])
	if err != nil {
		t.Fatal(err)
	}
	plot, err := png.Decode(bytes.NewReader(raw))
	if err != nil || plot.Bounds().Dx() != 60 || plot.Bounds().Dy() != 40 {
		t.Fatalf("the plot is %v, %v", plot, err)
	}
	for x, top := range map[int]int{10: 28, 30: 16, 50: 4} { // bars of 3, 6 and 9, of 4 pixels each
		for y, want := range map[int]uint8{top - 1: 255, top: 0, 39: 0} {
			if got := color.GrayModel.Convert(plot.At(x, y)).(color.Gray).Y; got != want {
				t.Errorf("the plot has %d at %d, %d, want %d", got, x, y, want)
			}
		}
	}
}
