package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

const (
	idleTimeout      = time.Minute
	handshakeTimeout = 20 * time.Second
)

// body is a transfer that is given up when nothing comes for idleTimeout.
type body struct {
	io.ReadCloser
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newBody(r io.ReadCloser, cancel context.CancelCauseFunc) *body {
	return &body{r, time.AfterFunc(idleTimeout, func() { cancel(errors.New("nothing came for a minute")) }), cancel}
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(idleTimeout)
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}

func isLoopback(u *url.URL) bool {
	host := u.Hostname()
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// tlsConfig trusts the system's authorities (or SSL_CERT_FILE's) and, as
// docker and podman do, those that a registry's own directory holds.
func tlsConfig(registry string, insecure bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure} // only where the user says so
	for _, dir := range certDirs() {
		if err := addCerts(c, filepath.Join(dir, registry)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func certDirs() []string {
	dirs := []string{"/etc/docker/certs.d", "/etc/containers/certs.d"}
	if config, err := os.UserConfigDir(); err == nil {
		dirs = append(dirs, filepath.Join(config, "docker/certs.d"), filepath.Join(config, "containers/certs.d"))
	}
	if own := os.Getenv("DOCKER_CONFIG"); own != "" {
		dirs = append(dirs, filepath.Join(own, "certs.d"))
	} else if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".docker/certs.d"))
	}
	return dirs
}

// addCerts adds *.crt, which are authorities, and pairs of *.cert and *.key,
// by which we are known to the registry.
func addCerts(c *tls.Config, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		switch filepath.Ext(file) {
		case ".crt":
			pem, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if c.RootCAs == nil {
				if c.RootCAs, err = x509.SystemCertPool(); err != nil {
					c.RootCAs = x509.NewCertPool()
				}
			}
			if !c.RootCAs.AppendCertsFromPEM(pem) {
				return &core.Error{Kind: core.Invalid, Op: "read certificate", Object: file, Err: errors.New("it holds none"), Remedy: "Replace it by a file with certificates in PEM form."}
			}
		case ".cert":
			pair, err := tls.LoadX509KeyPair(file, strings.TrimSuffix(file, ".cert")+".key")
			if err != nil {
				return &core.Error{Kind: core.Invalid, Op: "read client certificate", Object: file, Err: err}
			}
			c.Certificates = append(c.Certificates, pair)
		}
	}
	return nil
}
