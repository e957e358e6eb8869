package spec

import (
	"reflect"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestAfter(t *testing.T) {
	job, err := ParseJob("f", []byte("image: x\nafter: [prep, 123, {run: mesh, on: end}]\n"), "/d")
	if want := []After{{Run: "prep"}, {Run: "123"}, {Run: "mesh", On: AfterEnd}}; err != nil || !reflect.DeepEqual(job.After, want) {
		t.Errorf("%v: got %+v, want %+v", err, job, want)
	}
	var refused testkit.ErrorList
	for _, text := range []string{
		"prep",
		"['']",
		"[{on: end}]",
		"[{run: a, on: failed}]",
		"[{runs: a}]",
	} {
		_, err := ParseJob("f", []byte("image: x\nafter: "+text+"\n"), "/d")
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", text, err)
		}
		refused.Add(text, err)
	}
	refused.Compare(t, "after")
}

// TestSMTP: a mail server is reached in a way that can be, and its secrets are shown to the
// user of another one's Beefile.
func TestSMTP(t *testing.T) {
	parse := func(smtp string) (*Job, error) {
		return ParseJob("f", []byte("image: x\nnotify: [{mail: ann@example.org, smtp: "+smtp+"}]\n"), "/d")
	}
	for _, smtp := range []string{"{server: mail.example.org}", "{server: 'mail.example.org:587', user: a, password: {env: P}, from: b@x.org}"} {
		if _, err := parse(smtp); err != nil {
			t.Errorf("%s: %v", smtp, err)
		}
	}
	var refused testkit.ErrorList
	for _, smtp := range []string{
		"{server: 'mail.example.org:smtp'}",
		"{server: 'https://mail.example.org'}",
		"{user: a}",
		"{server: m, user: a}",
		"{server: m, password: {env: P}}",
		"{server: m, user: a, password: {}}",
		"{server: m, from: nobody}",
	} {
		_, err := parse(smtp)
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", smtp, err)
		}
		refused.Add(smtp, err)
	}
	refused.Compare(t, "smtp")
	job, err := parse("{server: m, user: a, password: {exec: pass mail}}")
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, r := range job.Reaches("/d") {
		asked = append(asked, r.Key)
	}
	for _, key := range []string{"notify[0].smtp.server", "notify[0].smtp.password.exec"} {
		if !slices.Contains(asked, key) {
			t.Errorf("the user is asked for %s, and not for %s", asked, key)
		}
	}
}
