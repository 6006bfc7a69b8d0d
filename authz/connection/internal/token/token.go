// Package token speaks to token endpoints.
package token
