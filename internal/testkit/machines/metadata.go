package machines

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/emulate"
)

// Metadata is the address at which each machine has its metadata service, as in EC2 and OpenStack.
const Metadata = "169.254.169.254"

// Files of a machine whose contents its metadata service gives: as the notice of its interruption, as the recommendation
// to leave the machine, and as its scheduled maintenance.
const (
	noticeName      = "notice"
	rebalanceName   = "rebalance"
	maintenanceName = "maintenance"
)

// startMetadata starts the metadata service of a machine.
func (b *Batch) startMetadata(n int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = b.hosts.Launch(b.park.ended, emulate.Command{Host: n, Argv: []string{self, metadataArg, b.of(n)}, Env: os.Environ(), Log: filepath.Join(b.of(n), "metadata.log")})
	return err
}

// serveMetadata is the metadata service of one machine, as far as it is asked for: tokens of version 2, notices of
// interruption, recommendations and maintenance.
func serveMetadata(dir string) error {
	var mu sync.Mutex
	tokens := map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "" {
			http.Error(w, "no lifetime", http.StatusBadRequest)
			return
		}
		token := rand.Text()
		mu.Lock()
		tokens[token] = true
		mu.Unlock()
		w.Write([]byte(token))
	})
	for path, name := range map[string]string{"spot/instance-action": noticeName, "events/recommendations/rebalance": rebalanceName, "events/maintenance/scheduled": maintenanceName} {
		mux.HandleFunc("GET /latest/meta-data/"+path, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			known := tokens[r.Header.Get("X-Aws-Ec2-Metadata-Token")]
			mu.Unlock()
			if !known {
				http.Error(w, "no token", http.StatusUnauthorized)
				return
			}
			http.ServeFile(w, r, filepath.Join(dir, name)) // 404 before there is one
		})
	}
	s := &http.Server{Addr: Metadata + ":80", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return s.ListenAndServe()
}
