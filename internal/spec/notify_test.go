package spec

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestNotify: what a receiver may be, in a Beefile and in a sites file.
func TestNotify(t *testing.T) {
	parse := func(text string) (job, sites error) {
		_, job = ParseJob("job.yaml", []byte("image: x\nnotify: "+text+"\n"), "/home/ann")
		_, sites = ParseSites("sites.yaml", []byte("sites: [{name: a, provider: local}]\nnotify: "+text+"\n"))
		return job, sites
	}
	for _, text := range []string{
		"[{webhook: 'https://example.org/hook', key: {file: k}}]",
		"[{webhook: 'http://127.0.0.1:8080/x', on: [failed, waiting>2h, moved]}]",
		"[{command: 'notify-send done'}, {mail: ann@example.org}, {mail: root}]",
	} {
		if job, sites := parse(text); job != nil || sites != nil {
			t.Errorf("%s: %v, %v", text, job, sites)
		}
	}
	var refused testkit.ErrorList
	for _, text := range []string{
		"[{webhook: 'http://example.org/x'}]",
		"[{webhook: 'https://ann:pw@example.org/x'}]",
		"[{webhook: 'https://example.org/x?token=1'}]",
		"[{webhook: 'ftp://example.org/x'}]",
		"[{webhook: 'example.org'}]",
		"[{mail: '-O x'}]",
		"[{mail: \"a@b\\nBcc: c\"}]",
		"[{mail: a@b, command: x}]",
		"[{on: [ended]}]",
		"[{command: x, key: {env: A}}]",
		"[{webhook: 'https://example.org', key: {env: A, file: b}}]",
		"[{command: x, on: [endet]}]",
		"[{command: x, on: [waiting>soon]}]",
		"[{command: x, on: [waiting>0s]}]",
		"[{sms: 1}]",
	} {
		job, sites := parse(text)
		if !core.IsKind(job, core.Invalid) || !core.IsKind(sites, core.Invalid) {
			t.Errorf("%s: %v, %v", text, job, sites)
		}
		refused.Add(text, job)
		refused.Add(text, sites)
	}
	refused.Compare(t, "notify")
	job, err := ParseJob("job.yaml", []byte("image: x\nnotify: [{on: [failed, waiting>2h], webhook: 'https://example.org/hook', key: {file: k}}, {command: beep}, {mail: ann}]\n"), "/home/ann")
	if err != nil {
		t.Fatal(err)
	}
	if n := job.Notify[0]; n.Wants(NotifyEnded) || !n.Wants(NotifyFailed) || len(n.Waiting()) != 1 || n.Waiting()[0] != 2*time.Hour || n.Key.File != "/home/ann/k" {
		t.Errorf("got %+v", n)
	}
	if n := job.Notify[1]; !n.Wants(NotifyEnded) || !n.Wants(NotifySuspended) || n.Wants(NotifyMoved) {
		t.Errorf("got %+v", n)
	}
	var reaches []string
	for _, r := range job.Reaches("/home/ann") {
		reaches = append(reaches, r.String())
	}
	testkit.Wording(t, "reaches", strings.Join(reaches, "\n"))
	text, err := job.Beefile()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseJob("job.yaml", text, "/home/ann"); err != nil || !reflect.DeepEqual(again.Notify, job.Notify) {
		t.Errorf("its Beefile has %+v, %v:\n%s", again, err, text)
	}
}
