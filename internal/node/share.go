package node

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/plan"
)

// nonceFile, in each node's own directory, holds a word that only that node
// can have written. A node that reads another's word below its own Host.Dir
// shares that directory with it, whatever the file systems are.
const nonceFile = "nonce"

func newToken() string {
	var raw [16]byte
	rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// LeaveNonce writes this node's word.
func (n *node) LeaveNonce() (string, error) {
	nonce := newToken()
	return nonce, os.WriteFile(filepath.Join(plan.NodeDir(n.config.Host.Dir, n.config.Rank), nonceFile), []byte(nonce), 0o600)
}

// findGroup gives the lowest rank whose Host.Dir is this node's own as well:
// the one that fills it for all who share it.
func (n *node) findGroup(nonces []string) int {
	for rank := range n.config.Rank {
		raw, err := os.ReadFile(filepath.Join(plan.NodeDir(n.config.Host.Dir, rank), nonceFile))
		if err == nil && rank < len(nonces) && string(raw) == nonces[rank] {
			return rank
		}
	}
	return n.config.Rank
}
