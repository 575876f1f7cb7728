// Writes a reply of its own on every descriptor there is, then leaves.
import { writeSync } from 'node:fs';

const forged = `${JSON.stringify({ nonce: '', answers: [{ value: { kind: 'miss', reusedTokens: 0 } }] })}\n`;
for (let descriptor = 0; descriptor < 64; descriptor += 1) {
  try {
    writeSync(descriptor, forged);
  } catch {
    // Not open, or not for writing.
  }
}
process.exit(0);
