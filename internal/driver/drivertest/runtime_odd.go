package drivertest

import (
	"archive/tar"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// unusual has a container of an image that lacks nearly everything and has links in unusual
// places, whose USER is in group 0, with directories that no layer has: names, resolvers,
// environment and directories are as in any other.
func (s RuntimeSuite) unusual(t *testing.T) {
	c := s.spec(t)
	c.Image = unusualImage(t, "odd", nil, "etc -> /usr/etc", "usr/etc/hosts -> /run/hosts", "usr/etc/resolv.conf -> ../../../../run/systemd/resolve/stub-resolv.conf", "var -> usr/var")
	if err := s.New(t).Prepare(t.Context(), c.Image); err != nil {
		t.Fatal(err)
	}
	c.Dirs = []string{"/closed/new", "/data", "/no/such", "/no/such/deeper", "/var/lib/app"}
	huge := "HUGE=" + strings.Repeat("x", 120_000)
	c.Env = append(c.Env, huge)
	ids := fmt.Sprint(os.Getuid(), os.Getgid())
	if s.New(t).Info().MapsUsers {
		c.User, ids = &core.Account{UID: 1234, Name: "app", Home: "/"}, "1234 0"
	}
	box := s.start(t, c)
	if got := want(t, box, "echo $(id -u) $(id -g)"); got != ids {
		t.Errorf("ids inside are %s, want %s", got, ids)
	}
	r := run(t, box, "", driver.Command{Args: []string{"sh", "-c", "pwd; echo ${#HUGE}; printenv FROM_SPEC | wc -l"}, Dir: "/no/such", Env: []string{"PATH=/bin", huge}})
	if strings.Join(strings.Fields(r.out), " ") != "/no/such 120000 0" {
		t.Errorf("in a directory that no layer has: %.80q: %s", r.out, r.err)
	}
	for _, dir := range c.Dirs {
		want(t, box, "echo x > "+dir+"/file && cat "+dir+"/file")
	}
	want(t, box, "echo x > /work/file && cat /a/deep/fixed/text")
	if hosts := want(t, box, "cat /etc/hosts"); !strings.Contains(hosts, "other-host") {
		t.Errorf("a link in the place of /etc/hosts: %q", hosts)
	}
	if got := want(t, box, "cat /etc/resolv.conf"); !strings.Contains(got, "nameserver") && !s.OwnKernel {
		t.Errorf("a link in the place of /etc/resolv.conf: %q", got)
	}
	want(t, box, "test -d /proc/self && test -c /dev/null && test -d /sys/kernel")
}

// linksOut has images with links that lead to a directory of the host in every place that
// a runtime touches: it may refuse to start one, and nothing outside changes.
func (s RuntimeSuite) linksOut(t *testing.T) {
	if s.OwnKernel { // there is no such directory in a machine
		return
	}
	outside, unchanged := hostDir(t)
	up := strings.Repeat("../", 20) + strings.TrimPrefix(outside, "/")
	for i, links := range [][]string{
		{"etc -> " + outside, "work -> " + outside, "tmp -> " + up, "a -> " + up, "no -> " + outside},
		{".bee -> " + outside},
		{"proc -> " + outside, "dev -> " + up, "sys -> " + outside},
		{"etc/passwd -> " + outside + "/passwd", "etc/hosts -> " + up + "/hosts", "etc/resolv.conf -> " + outside + "/hosts", "a/deep -> " + outside, "work -> a/deep", ".bee/run -> " + up},
	} {
		c := s.spec(t)
		c.Image = unusualImage(t, fmt.Sprint("out", i), []string{"etc/", "a/", ".bee/"}, links...)
		if err := s.New(t).Prepare(t.Context(), c.Image); err != nil {
			t.Fatal(err)
		}
		c.Dirs = []string{"/no/such"}
		box, err := s.New(t).Start(t.Context(), c)
		if err != nil {
			t.Logf("%s: refused: %v", links, err)
		} else {
			run(t, box, "", shell("echo bad > /etc/passwd; echo bad > /etc/hosts; echo bad > /work/hosts; rm -rf /tmp/* /etc/* /no/*; echo bad > /no/such/file"))
			if err := box.Stop(t.Context(), 2*time.Second); err != nil {
				t.Error(err)
			}
		}
		unchanged(fmt.Sprint(links))
	}
}

// unusualImage makes an image of one layer: busybox below /usr, a directory that its owner may
// not write to, and given directories and links ("path -> target"), of which later ones
// replace those before. It has no accounts, no /tmp, and no places for mounts.
func unusualImage(t *testing.T, called string, dirs []string, links ...string) driver.LocalImage {
	t.Helper()
	taken := map[string]bool{}
	for _, l := range links {
		path, _, _ := strings.Cut(l, " -> ")
		taken[path+"/"] = true
	}
	layer := testkit.NewLayer(t)
	for _, d := range append([]string{"usr/", "usr/bin/", "usr/etc/", "usr/var/", "closed/"}, dirs...) {
		if !taken[d] {
			mode := int64(0o755)
			if d == "closed/" {
				mode = 0o555
			}
			layer.Add(tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: mode}, nil)
		}
	}
	layer.Busybox("usr/bin", "sh cat echo id pwd rm wc printenv test")
	for _, l := range append([]string{"bin -> /usr/bin"}, links...) {
		path, target, _ := strings.Cut(l, " -> ")
		layer.Link(path, target)
	}
	tag := "bee.test/" + called + ":1"
	// What a runtime must not act upon, too: the node does.
	return formsOf(t, layer.Archive(tag, v1.Config{
		WorkingDir: "/no/such", User: "1234:0", Entrypoint: []string{""}, Cmd: []string{"false"}, StopSignal: "SIGQUIT", Volumes: map[string]struct{}{"/data": {}},
		ExposedPorts: map[string]struct{}{"80/tcp": {}}, Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "false"}}, OnBuild: []string{"RUN false"}, ArgsEscaped: true,
		Env: []string{"PATH=/none", "PATH=/bin"}, Labels: map[string]string{"a": "b"}, Shell: []string{"/bin/none"},
	}), tag)
}
