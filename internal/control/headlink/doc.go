// Package headlink reaches the head of an attempt, and reads the files that it leaves. Nothing
// that a head says or leaves is believed before it is checked. It knows leases, and nothing of
// an attempt's states or records.
package headlink
