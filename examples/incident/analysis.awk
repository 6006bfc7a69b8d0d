# Reads "time seconds" lines and says how the values over a second compare with
# the others.
$2 + 0 > 1  { n++; slow += $2; if (!first) first = $1; last = $1; next }
            { m++; fast += $2 }
END {
    if (!n || !m) { print "no change"; exit }
    printf "%d of %d samples, from %s to %s, average %.2f s, the others %.2f s: %.1f times as much\n", n, n + m, first, last, slow / n, fast / m, (slow / n) / (fast / m)
}
