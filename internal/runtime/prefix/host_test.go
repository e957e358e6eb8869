package prefix

import (
	"errors"
	"slices"
	"testing"
)

// TestOfHost translates the places of a job, and starts programs of the host as they are.
func TestOfHost(t *testing.T) {
	p, err := OfHost(Input{Binary: "/bee", Places: map[string]string{"/work": "/run/volume", "/.bee": "/run/tools"}})
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=/opt/mpi/bin:/work/bin:/usr/bin", "LD_LIBRARY_PATH=/opt/lib", "AGENT=/.bee/rsh", "X=/etc/passwd"}
	args, env, dir, err := p.Command([]string{"mpirun", "-n", "2", "/usr/bin/hpcc", "/work/in", "--out=/work/out"}, env, "/work/case")
	if want := []string{"mpirun", "-n", "2", "/usr/bin/hpcc", "/run/volume/in", "--out=/run/volume/out"}; err != nil || !slices.Equal(args, want) || dir != "/run/volume/case" {
		t.Errorf("%q in %s, %v; expected %q", args, dir, err, want)
	}
	for _, want := range []string{"PATH=/opt/mpi/bin:/run/volume/bin:/usr/bin", "LD_LIBRARY_PATH=/opt/lib", "AGENT=/run/tools/rsh", "X=/etc/passwd", Variable + `={"tree":"/","binary":"/bee","places":{"/.bee":"/run/tools","/work":"/run/volume"}}`} {
		if !slices.Contains(env, want) {
			t.Errorf("the environment %q lacks %s", env, want)
		}
	}
	if args, _, dir, err := p.Command([]string{"/bin/sh", "-c", "cat /etc/passwd"}, nil, "/opt"); err != nil || args[0] != "/bin/sh" || dir != "/opt" {
		t.Errorf("%q in %s, %v", args, dir, err)
	}
	_, _, _, err = p.Command([]string{"sh", "-c", "cat /work/in"}, nil, "/work")
	if named, is := errors.AsType[*PathError](err); !is || named.Path != "/work/in" {
		t.Errorf("a script that names a place: %v", err)
	}
}
