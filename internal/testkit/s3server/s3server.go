// Package s3server gives tests a real S3 server on loopback: versitygw, over a
// directory in which each object is a file. It needs no root.
package s3server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/testkit"
)

// Server is a running server with one bucket.
type Server struct {
	t       testing.TB
	cmd     *exec.Cmd
	program string
	root    string
	address string
	dial    func(ctx context.Context, network, address string) (net.Conn, error) // nil: as usual
	// Bucket is its name, and Dir the directory with its objects.
	Bucket, Dir string
}

// Start starts a server. It ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, program: testkit.RequireTool(t, "versitygw"), root: t.TempDir(), Bucket: "checkpoints"}
	s.Dir = filepath.Join(s.root, s.Bucket)
	s.address = testkit.FreeAddress(t)
	t.Cleanup(s.Stop)
	s.Restart()
	if _, err := s.Client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &s.Bucket}); err != nil {
		t.Fatal(err)
	}
	return s
}

// StartElsewhere starts a server at an address that this process does not reach, on a host where launch starts programs
// and dial connects. It ends with that host.
func StartElsewhere(t testing.TB, address string, launch func(argv []string, log string) error, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Server {
	t.Helper()
	s := &Server{t: t, program: testkit.RequireTool(t, "versitygw"), root: t.TempDir(), Bucket: "checkpoints", address: address, dial: dial}
	s.Dir = filepath.Join(s.root, s.Bucket)
	if err := launch(s.argv(), s.root+".log"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		_, err := s.Client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &s.Bucket})
		return err
	})
	return s
}

func (s *Server) argv() []string {
	return []string{s.program, "--port", s.address, "--access", Access, "--secret", Secret, "--quiet", "posix", s.root}
}

// Put stores an object.
func (s *Server) Put(key, text string) {
	s.t.Helper()
	if _, err := s.Client().PutObject(s.t.Context(), &s3.PutObjectInput{Bucket: &s.Bucket, Key: &key, Body: strings.NewReader(text)}); err != nil {
		s.t.Fatal(err)
	}
}

// Endpoint is the server's URL.
func (s *Server) Endpoint() string { return "http://" + s.address }

// Client returns a client of the server, as others have it.
func (s *Server) Client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint()), Region: region, UsePathStyle: true, HTTPClient: &http.Client{Transport: &http.Transport{DialContext: s.dial, DisableKeepAlives: true}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: Access, SecretAccessKey: Secret}, nil
		}),
	})
}

// StartFound starts a server that this process finds by its variables, as users set theirs.
func StartFound(t testing.TB) *Server {
	t.Helper()
	s := Start(t)
	testkit.Setenv(t, s.Env())
	return s
}

// Restart starts the server again after Stop, at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	log, err := os.OpenFile(s.root+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	argv := s.argv()
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	testkit.Eventually(s.t, 20*time.Second, func() error {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			raw, _ := os.ReadFile(s.root + ".log")
			return fmt.Errorf("%w: %s", err, raw)
		}
		return c.Close()
	})
}

// Stop ends the server; what it holds stays.
func (s *Server) Stop() {
	if s.cmd != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait() //nolint:errcheck // however it ends
		s.cmd = nil
	}
}

// The server's credentials.
const (
	Access = "bee-test-access"
	Secret = "bee-test-secret"
	region = "us-east-1"
)

// Env are the variables by which AWS's tools find the server.
func (s *Server) Env() []string { return s.EnvAt(s.Endpoint()) }

// EnvAt is Env for another endpoint that leads to the server.
func (s *Server) EnvAt(endpoint string) []string {
	return []string{
		"AWS_ENDPOINT_URL=" + endpoint, "AWS_ACCESS_KEY_ID=" + Access, "AWS_SECRET_ACCESS_KEY=" + Secret, "AWS_REGION=" + region,
		"AWS_EC2_METADATA_DISABLED=true",
	}
}
