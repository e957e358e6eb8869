package aws

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestNotice: what is no notice is none, whatever the metadata service answers.
func TestNotice(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"a notice":         {`printf '{"action": "terminate", "time": "2026-11-28T08:22:00Z"}'`, "notice 1795854120"},
		"a recommendation": {`printf '{"noticeTime": "2026-11-28T08:22:00Z"}'`, "rebalance 1795854120"},
		"maintenance":      {`printf '[ {"NotBefore" : "28 Nov 2026 09:22:00 GMT", "Code": "system-reboot"}, {"NotBefore": "28 Nov 2026 08:22:00 GMT", "NotAfter": "1 Dec 2026 08:22:00 GMT"} ]'`, "maintenance 1795854120"},
		"all":              {`printf '{"time": "2026-11-28T08:22:00Z"}{"noticeTime": "2026-11-28T08:22:01Z"}[{"NotBefore": "28 Nov 2026 08:22:02 GMT"}]'; exit 22`, "notice 1795854120\nrebalance 1795854121\nmaintenance 1795854122"},
		"no maintenance":   {`echo '[]'`, ""},
		"no answer":        {"exit 22", ""},
		"no token":         {"", ""},
		"nothing":          {"exit 0", ""},
		"a page":           {"echo '<html>Welcome</html>'", ""},
		"without a time":   {`echo '{"action": "terminate"}'`, ""},
		"of no time":       {`echo '{"time": "T:Z"}'`, ""},
		"of a command":     {`echo '{"time": "$(touch harm)"}'`, ""},
		"of several lines": {`printf '{\n"action": "stop",\n"time": "2026-11-28T08:22:00Z"\n}\n'`, "notice 1795854120"},
	} {
		dir := t.TempDir()
		token := "echo TOKEN"
		if c.answer == "" {
			token = "exit 22"
		}
		curl := "#!/bin/sh\ncase \"$*\" in *api/token*) " + token + " ;; *'Metadata-Token: TOKEN'*|*'metadata-token: TOKEN'*) " + c.answer + " ;; *) exit 22 ;; esac\n"
		if err := core.WriteProgram(filepath.Join(dir, "curl"), []byte(curl), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", "notice() {\n"+noticeScript+"\n}\nnotice")
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); got != c.want || err != nil && name != "no token" {
			t.Errorf("%s: printed %q, %v; want %q", name, got, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(dir, "harm")); err == nil {
			t.Errorf("%s: the answer was run", name)
		}
	}
}

// TestEnds are why machines have ended, by EC2's codes.
func TestEnds(t *testing.T) {
	for code, want := range map[string]core.HostsEnd{
		"Server.SpotInstanceTermination": core.HostsReclaimed, "Server.ScheduledStop": core.HostsReclaimed, "Client.InstanceInitiatedShutdown": core.HostsPoweredOff,
		"Client.UserInitiatedShutdown": core.HostsEnded, "Server.InternalError": "", "": "",
	} {
		if got := (instance{State: "terminated", Code: code, Reason: "Server.SpotInstanceTermination"}).machine(false).End; got != want {
			t.Errorf("%s is %q, expected %q", code, got, want)
		}
	}
}

// TestSharedLists: sites share lists of machines where these have the same addresses.
func TestSharedLists(t *testing.T) {
	name := func(change func(*Settings)) string {
		s := Settings{Region: "eu-west-1"}
		change(&s)
		return accountOf(&account{s: s})
	}
	public := name(func(*Settings) {})
	if same := name(func(s *Settings) { s.Image, s.Public = "debian-12", PublicYes }); same != public {
		t.Errorf("%s and %s are not shared", same, public)
	}
	for what, change := range map[string]func(*Settings){
		"a bastion": func(s *Settings) { s.Cloud.Bastion = "gate" }, "no public addresses": func(s *Settings) { s.Public = PublicNo },
		"another region": func(s *Settings) { s.Region = "eu-west-2" }, "another profile": func(s *Settings) { s.Profile = "other" },
	} {
		if got := name(change); got == public {
			t.Errorf("a site with %s has the list of one without", what)
		}
	}
}
