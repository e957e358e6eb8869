package benchcmd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/bench/record"
)

// jobText is a job of a plan as digests have it: its outputs have no place yet.
func jobText(taker *measure.Taker, point record.Point, environment string) ([]byte, error) {
	job, err := taker.Job(point, environment, "")
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("digest the job of %s: %w", environment, err)
	}
	return text, nil
}

// jobsDigest is the digest of the jobs of a plan.
func jobsDigest(p *record.Plan, taker *measure.Taker) (string, error) {
	h := sha256.New()
	for _, point := range p.Points {
		for _, e := range point.Environments {
			text, err := jobText(taker, point, e)
			if err != nil {
				return "", err
			}
			h.Write(text)
			if program := taker.Study.Environments[e].Bee; program != "" {
				sum, _ := programDigest(program) // without it, the environment is left out
				h.Write([]byte(sum))
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// keyDigests are the digests of the keys of an environment's jobs.
func keyDigests(p *record.Plan, taker *measure.Taker, environment string) (map[string]string, error) {
	all := map[string]hash.Hash{}
	for _, point := range p.Points {
		if !slices.Contains(point.Environments, environment) {
			continue
		}
		text, err := jobText(taker, point, environment)
		if err != nil {
			return nil, err
		}
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(text, &keys); err != nil {
			return nil, fmt.Errorf("digest the job of %s: %w", environment, err)
		}
		for key, value := range keys {
			if all[key] == nil {
				all[key] = sha256.New()
			}
			all[key].Write(value)
		}
	}
	sums := map[string]string{}
	if program := taker.Study.Environments[environment].Bee; program != "" {
		if sum, err := programDigest(program); err == nil { // else it is left out as not working
			sums["bee"] = sum
		}
	}
	for key, h := range all {
		sums[strings.ToLower(key)] = hex.EncodeToString(h.Sum(nil))
	}
	return sums, nil
}
