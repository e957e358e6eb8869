package instance

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const metadata = `{"uuid": "d8e02d56-2648-49a3-bf97-6be8f1204f38", "hostname": "node-1.novalocal", "name": "node-1", "keys": [], "admin_pass": "x"}`

// TestDrive reads what a drive has, and refuses what no cloud would write.
func TestDrive(t *testing.T) {
	for name, c := range map[string]struct {
		metadata, script string
		want             Instance
		fails, noScript  bool
	}{
		"whole":             {metadata, "#!/bin/sh\necho hello\n", Instance{"d8e02d56-2648-49a3-bf97-6be8f1204f38", "node-1", []byte("#!/bin/sh\necho hello\n")}, false, false},
		"no script":         {metadata, "", Instance{ID: "d8e02d56-2648-49a3-bf97-6be8f1204f38", Hostname: "node-1"}, false, false},
		"cloud-config":      {metadata, "#cloud-config\n{}\n", Instance{ID: "d8e02d56-2648-49a3-bf97-6be8f1204f38", Hostname: "node-1"}, false, true},
		"no hostname":       {`{"uuid": "i-1", "hostname": "a b"}`, "", Instance{ID: "i-1"}, false, false},
		"no id":             {`{"hostname": "a"}`, "", Instance{}, true, false},
		"an id with a path": {`{"uuid": "../x"}`, "", Instance{}, true, false},
		"no JSON":           {"{", "", Instance{}, true, false},
		"too much metadata": {`{"uuid": "i-1", "x": "` + strings.Repeat("x", mostMetadata) + `"}`, "", Instance{}, true, false},
		"too long a script": {metadata, "#!/bin/sh\n" + strings.Repeat("#", mostScript), Instance{}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, "openstack", "latest")
			err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, "meta_data.json"), []byte(c.metadata), 0o600))
			if c.script != "" {
				err = errors.Join(err, os.WriteFile(filepath.Join(at, "user_data"), []byte(c.script), 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := Drive(dir)
			if (err != nil) != (c.fails || c.noScript) || errors.Is(err, ErrScript) != c.noScript || !c.fails && !equal(got, c.want) {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// TestDriveFollowsNoLink: a drive that another filled leads nowhere else.
func TestDriveFollowsNoLink(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "meta_data.json")
	at := filepath.Join(dir, "openstack", "latest")
	if err := errors.Join(os.WriteFile(outside, []byte(metadata), 0o600), os.MkdirAll(at, 0o755), os.Symlink(outside, filepath.Join(at, "meta_data.json"))); err != nil {
		t.Fatal(err)
	}
	if got, err := Drive(dir); err == nil {
		t.Errorf("it read %+v", got)
	}
}

func equal(a, b Instance) bool {
	return a.ID == b.ID && a.Hostname == b.Hostname && string(a.Script) == string(b.Script)
}

// ec2 is a metadata service that wants tokens, as EC2's does.
func ec2(script string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "" {
			http.Error(w, "no lifetime", http.StatusBadRequest)
			return
		}
		w.Write([]byte("AQAE=="))
	})
	answers := map[string]string{"meta-data/instance-id": "i-0123456789abcdef0", "meta-data/local-hostname": "ip-10-0-0-7.us-east-2.compute.internal"}
	if script != "" {
		answers["user-data"] = script
	}
	for path, text := range answers {
		mux.HandleFunc("GET /latest/"+path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "AQAE==" {
				http.Error(w, "no token", http.StatusUnauthorized)
				return
			}
			w.Write([]byte(text))
		})
	}
	return mux
}

// openstackService is one that has no tokens, as OpenStack's has none.
func openstackService(script string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openstack/latest/meta_data.json", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(metadata)) })
	if script != "" {
		mux.HandleFunc("GET /openstack/latest/user_data", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(script)) })
	}
	return mux
}

// TestService asks the services of both clouds, and ones that are none.
func TestService(t *testing.T) {
	const script = "#!/bin/sh\n"
	const uuid = "d8e02d56-2648-49a3-bf97-6be8f1204f38"
	elsewhere := httptest.NewServer(openstackService(script))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		handler http.Handler
		want    Instance
		fails   bool
	}{
		"EC2":                 {ec2(script), Instance{"i-0123456789abcdef0", "ip-10-0-0-7", []byte(script)}, false},
		"EC2, no script":      {ec2(""), Instance{"i-0123456789abcdef0", "ip-10-0-0-7", nil}, false},
		"OpenStack":           {openstackService(script), Instance{uuid, "node-1", []byte(script)}, false},
		"OpenStack, none":     {openstackService(""), Instance{uuid, "node-1", nil}, false},
		"neither":             {http.NotFoundHandler(), Instance{}, true},
		"one that fails":      {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }), Instance{}, true},
		"one with a redirect": {http.RedirectHandler(elsewhere.URL+"/openstack/latest/meta_data.json", http.StatusFound), Instance{}, true},
		"one without an end": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}), Instance{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.handler)
			defer s.Close()
			got, err := Service(t.Context(), s.URL)
			if (err != nil) != c.fails || !c.fails && !equal(got, c.want) {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}
