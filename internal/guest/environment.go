package guest

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/guest/api"
)

// environment is what programs of the guest need to reach the world, such as a
// proxy: what the builder of the image says, and after it, as it counts more, what
// the host has.
func environment(c api.Config) []string {
	raw, _ := os.ReadFile("/etc/environment")
	env := parseEnvironment(string(raw))
	for _, e := range c.Env {
		key, value, _ := strings.Cut(e, "=")
		if !strings.EqualFold(key, "no_proxy") {
			value = seenFromGuest(value)
		}
		env = append(env, key+"="+value)
	}
	return env
}

// parseEnvironment reads a file as /etc/environment is.
func parseEnvironment(text string) []string {
	var env []string
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			env = append(env, key+"="+strings.Trim(value, `"`))
		}
	}
	return env
}

// seenFromGuest is a proxy of the host's: on the host's loopback, it is where QEMU's
// user network has the host.
func seenFromGuest(proxy string) string {
	scheme, place, found := strings.Cut(proxy, "://")
	if !found { // which is as good
		scheme, place = "", proxy
	}
	u, err := url.Parse("//" + place)
	if err != nil {
		return proxy
	}
	address, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && (err != nil || !address.IsLoopback()) {
		return proxy
	}
	port := u.Port()
	if u.Host = outerGateway; port != "" {
		u.Host = net.JoinHostPort(outerGateway, port)
	}
	u.Scheme = scheme
	return strings.TrimPrefix(u.String(), "//")
}

// setEnv is a line of sshd's configuration, which otherwise gives its sessions
// nothing of the sort. Only the first such line counts.
func setEnv(env []string) string {
	if len(env) == 0 {
		return ""
	}
	line, escaped := "SetEnv", strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for _, e := range env {
		line += ` "` + escaped.Replace(e) + `"`
	}
	return line + "\n"
}
