package prefix

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOtherHosts: what a program on one host has started on another has the paths of the other, where image, volume and
// prefix are elsewhere. The script is as Open MPI makes it.
func TestOtherHosts(t *testing.T) {
	makeAt := func(tools string) (*Prefix, string, string) {
		root, volume := tree(t), t.TempDir()
		p, err := Make(filepath.Join(t.TempDir(), "prefix"), Input{Tree: root, Binary: "/bee", Env: []string{"PATH=/usr/bin"}, Places: map[string]string{"/work": volume, "/.bee": tools}})
		if err != nil {
			t.Fatal(err)
		}
		return p, root, volume
	}
	p, root, volume := makeAt("/tools/of/one")
	q, otherRoot, otherVolume := makeAt("/tools/of/two")
	_, env, dir, err := p.Command([]string{"cat"}, []string{"PATH=/usr/bin", "AGENT=/.bee/rsh", "DATA=/usr/share/data:/work/x", "OTHER=/dev/shm"}, "/work/case")
	if err != nil {
		t.Fatal(err)
	}
	mixed := func(root, volume string) []string {
		return []string{
			"ARGS=--in " + volume + "/data --image=" + root + "/usr/share/data -o '" + volume + "/out'", "TWO=" + volume + "/a " + volume + "/b",
			"PAIR=a," + volume + "/x:" + volume + "/y", "LIST=:" + volume + ":x:" + volume + "/y z",
		}
	}
	env = append(env, mixed(root, volume)...)
	script := "OPAL_PREFIX=" + p.dir + " ; export OPAL_PREFIX; orted -mca agent \"/tools/of/one/rsh\" -mca uri \"1.0;tcp://10.0.0.1:1/x\" -x " + root + "/usr/share/data -x " + volume + "-more -x " + volume
	env, dir, script = Portable(env, dir, script)
	for _, text := range append([]string{dir, script}, env...) {
		for _, at := range []string{p.dir, root, volume + "/", "/tools/of/one"} {
			if strings.Contains(text, at) {
				t.Errorf("%q has %s of one host", text, at)
			}
		}
	}
	args, env, dir, err := q.Command([]string{"/bin/sh", "-c", script}, env, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := "OPAL_PREFIX=" + q.dir + " ; export OPAL_PREFIX; orted -mca agent \"/tools/of/two/rsh\" -mca uri \"1.0;tcp://10.0.0.1:1/x\" -x " + otherRoot + "/usr/share/data -x " + volume + "-more -x " + otherVolume
	if args[2] != want || dir != otherVolume+"/case" {
		t.Errorf("in %s\n%s\nexpected in %s\n%s", dir, args[2], otherVolume+"/case", want)
	}
	translated := append(mixed(otherRoot, otherVolume), "PATH="+q.dir+"/bin", "AGENT=/tools/of/two/rsh", "DATA="+otherRoot+"/usr/share/data:"+otherVolume+"/x", "OTHER=/dev/shm", "OPAL_PREFIX="+q.dir)
	for _, e := range translated {
		if !slices.Contains(env, e) {
			t.Errorf("no %q in %q", e, env)
		}
	}
	if mark := valueOf(env, Variable); !strings.Contains(mark, otherRoot) {
		t.Errorf("the mark is %s", mark)
	}
	if same, _, _ := Portable([]string{Variable + `={"tree": "/t"}`, "A=/t", "B=/t/x"}, "/", "x"); !slices.Equal(same, []string{"A=/t", "B=/x"}) {
		t.Errorf("the image itself and a file of it: %q", same)
	}
	if again, at, text := Portable([]string{"A=" + volume}, volume, volume); len(again) != 1 || at != volume || text != volume {
		t.Errorf("without a prefix: %q, %s, %s", again, at, text)
	}
	if _, _, _, err := q.Command([]string{"/bin/sh", "-c", script + "; cat /work/x"}, nil, "/"); !isPath(err) {
		t.Errorf("a script of a user beside it: %v", err)
	}
	args, _, _, err = q.Command([]string{"/bin/sh", "-c", "/.bee/image/usr/bin/cat"}, nil, "/")
	if info, statErr := os.Stat(args[2]); err != nil || statErr != nil || info.Mode()&0o111 == 0 || !strings.HasPrefix(args[2], q.dir) {
		t.Errorf("a program of the image is started by %q: %v, %v", args, err, statErr)
	}
}
