package node

import (
	"crypto/rand"
	"encoding/hex"
	"os"

	"github.com/bee-hpc/bee/internal/plan"
)

func newToken() string {
	var raw [16]byte
	rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// LeaveNonce writes this node's word.
func (n *node) LeaveNonce() (string, error) {
	nonce := newToken()
	return nonce, os.WriteFile(plan.NoncePath(n.config.Host.Dir, n.config.Rank), []byte(nonce), 0o600)
}

// findGroup gives the lowest rank whose Host.Dir is this node's own as well:
// the one that fills it for all who share it.
func (n *node) findGroup(nonces []string) int {
	for rank := range n.config.Rank {
		raw, err := os.ReadFile(plan.NoncePath(n.config.Host.Dir, rank))
		if err == nil && rank < len(nonces) && string(raw) == nonces[rank] {
			return rank
		}
	}
	return n.config.Rank
}
