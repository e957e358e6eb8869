package spec

import (
	"strings"
	"testing"
)

// TestOutputsInAllForms are complete once the Beefile and the working directory are known.
func TestOutputsInAllForms(t *testing.T) {
	const head = "name: j\nimage: app\nnodes: 1\n"
	for text, want := range map[string]Output{
		"outputs: [out.txt]":                                               {From: "/opt/out.txt", To: "/home/ann"},
		"workdir: /work/run\noutputs: ['*.dat']":                           {From: "/work/run/*.dat", To: "/home/ann"},
		"outputs: [{from: a/b, to: r, optional: true, replace: true}]":     {From: "/opt/a/b", To: "/home/ann/r", Optional: true, Replace: true},
		"outputs: [{from: /work/x, to: 'r/${run.name}'}]":                  {From: "/work/x", To: "/home/ann/r/j"},
		"outputs: [{from: /work/x, to: 'r/${run.id}-${run.name}'}]":        {From: "/work/x", To: "/home/ann/r/${run.id}-j"},
		"volume: /opt\nworkdir: /opt\noutputs: [{from: ./x/../y, to: /r}]": {From: "/opt/y", To: "/r"},
	} {
		j, err := ParseJob("job.yaml", []byte(head+text), "/home/ann")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		j.Volume.Path = map[bool]string{true: "/work", false: "/opt"}[strings.HasPrefix(j.Outputs[0].From, "/work")]
		if _, err := j.OutputsIn("/opt"); err != nil || j.Outputs[0] != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, j.Outputs[0], err, want)
		}
	}
	for _, text := range []string{
		"outputs: [{to: r}]", "outputs: [{from: /etc/x}]", "workdir: /opt\noutputs: [x]", "outputs: ['[']",
		"outputs: [{from: x, to: '${run.site}'}]", "name: ..\noutputs: [{from: x, to: '${run.name}'}]", "outputs: [[x]]",
	} {
		if j, err := ParseJob("job.yaml", []byte("image: app\n"+text), "/home/ann"); err == nil {
			t.Errorf("%s: accepted as %+v", text, j.Outputs)
		}
	}
	j, err := ParseJob("job.yaml", []byte(head+"outputs: [out.txt]"), "/home/ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.OutputsIn("/opt"); err == nil {
		t.Error("an output outside the volume was accepted")
	}
}

// TestPlacesThatMeet are those in which one file may be an output of both jobs.
func TestPlacesThatMeet(t *testing.T) {
	for _, c := range []struct {
		a, b Output
		meet bool
	}{
		{Output{From: "/work/x", To: "/r"}, Output{From: "/work/x", To: "/r"}, true},
		{Output{From: "/work/a/x", To: "/r"}, Output{From: "/work/b/x", To: "/r"}, true},
		{Output{From: "/work/x", To: "/r"}, Output{From: "/work/y", To: "/r"}, false},
		{Output{From: "/work/x", To: "/r"}, Output{From: "/work/x", To: "/s"}, false},
		{Output{From: "/work/*.dat", To: "/r"}, Output{From: "/work/a*", To: "/r"}, true},
		{Output{From: "/work/*.dat", To: "/r"}, Output{From: "/work/*.csv", To: "/r"}, false},
		{Output{From: "/work/x?", To: "/r"}, Output{From: "/work/x", To: "/r"}, false},
		{Output{From: "/work/x[0-9]", To: "/r"}, Output{From: "/work/x7", To: "/r"}, true},
		{Output{From: `/work/\*`, To: "/r"}, Output{From: "/work/x", To: "/r"}, false},
		{Output{From: "/work/res", To: "/r"}, Output{From: "/work/x", To: "/r/res"}, true},
		{Output{From: "/work/*/log", To: "/r"}, Output{From: "/work/log", To: "/r/a"}, true},
		{Output{From: "/work/x", To: "/r/${run.id}"}, Output{From: "/work/x", To: "/r/1234"}, false},
		{Output{From: "/work/x", To: "/r[a]"}, Output{From: "/work/x", To: "/ra"}, false},
		{Output{From: "/work", To: "/"}, Output{From: "/work/x", To: "/work"}, true},
	} {
		a, b := &Job{Volume: Volume{Path: "/work"}, Outputs: []Output{c.a}}, &Job{Volume: Volume{Path: "/work"}, Outputs: []Output{c.b}}
		for _, to := range []string{a.Collision(b), b.Collision(a)} {
			if (to != "") != c.meet {
				t.Errorf("%+v and %+v: %q", c.a, c.b, to)
			}
		}
	}
}
