package guest

import (
	"os"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
)

// TestProxiesOfTheHost: what listens on the host's loopback is elsewhere in a guest.
func TestProxiesOfTheHost(t *testing.T) {
	for outside, want := range map[string]string{
		"http_proxy=http://127.0.0.1:3128":              "http_proxy=http://10.0.2.2:3128",
		"HTTPS_PROXY=http://ann:p%40ss@localhost:8080/": "HTTPS_PROXY=http://ann:p%40ss@10.0.2.2:8080/",
		"all_proxy=socks5://[::1]:1080":                 "all_proxy=socks5://10.0.2.2:1080",
		"http_proxy=127.0.0.2":                          "http_proxy=10.0.2.2",
		"http_proxy=http://proxy.example:3128":          "http_proxy=http://proxy.example:3128",
		"http_proxy=http://10.1.2.3:3128":               "http_proxy=http://10.1.2.3:3128",
		"http_proxy=":                                   "http_proxy=",
		"no_proxy=localhost":                            "no_proxy=localhost",
	} {
		if got := environment(api.Config{Env: []string{outside}}); !slices.Contains(got, want) {
			t.Errorf("%s became %v", outside, got)
		}
	}
}

func TestParseEnvironment(t *testing.T) {
	got := parseEnvironment("# a=b\n\nhttp_proxy=\"http://it's:3128\"\n")
	if !slices.Equal(got, []string{"http_proxy=http://it's:3128"}) {
		t.Errorf("got %q", got)
	}
}

// TestPeopleHaveTheProxy: in the guest's shell, and by ssh.
func TestPeopleHaveTheProxy(t *testing.T) {
	env := []string{"http_proxy=http://p:1", `no_proxy=a, "b"`}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := starter(env)(t.Context(), driver.Command{Args: []string{"sh", "-c", "echo $http_proxy $TERM"}, Env: []string{"TERM=vt100"}, Dir: "/", Stdout: in})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	printed := make([]byte, 100)
	if n, err := out.Read(printed); err != nil || string(printed[:n]) != "http://p:1 vt100\n" {
		t.Errorf("a process has %q, %v", printed[:n], err)
	}
	if got, want := setEnv(env), `SetEnv "http_proxy=http://p:1" "no_proxy=a, \"b\""`+"\n"; got != want {
		t.Errorf("sshd is told %q", got)
	}
	if got := setEnv(nil); got != "" {
		t.Errorf("without any: %q", got)
	}
}
