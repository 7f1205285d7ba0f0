// Compiles AgentMemoryAnchor.sol into AgentMemoryAnchor.json, byte for byte the same each time.
//
//     npm install --prefix /tmp/solc solc@0.8.37
//     NODE_PATH=/tmp/solc/node_modules node compile.cjs            writes the artifact
//     NODE_PATH=/tmp/solc/node_modules node compile.cjs --check    only says whether it is what the source gives
//
// The version must be the one in package.json, since another compiler gives other bytes.

const crypto = require("crypto");
const fs = require("fs");
const path = require("path");
const solc = require("solc");

const NAME = "AgentMemoryAnchor";
const SOURCE = path.join(__dirname, `${NAME}.sol`);
const ARTIFACT = path.join(__dirname, `${NAME}.json`);
const WANTED = require("./package.json").dependencies.solc;
const SETTINGS = {
  evmVersion: "cancun",
  optimizer: { enabled: true, runs: 10000 },
  metadata: { bytecodeHash: "ipfs" },
};

function compile() {
  if (!solc.version().startsWith(`${WANTED}+`)) {
    throw new Error(`this is solc ${solc.version()}; install solc@${WANTED}`);
  }
  const source = fs.readFileSync(SOURCE, "utf8");
  const outputSelection = { "*": { "*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"] } };
  const input = {
    language: "Solidity",
    sources: { [`${NAME}.sol`]: { content: source } },
    settings: { ...SETTINGS, outputSelection },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input)));
  for (const error of output.errors || []) console.error(error.formattedMessage);
  if ((output.errors || []).length) throw new Error("the compiler has something to say");
  const contract = output.contracts[`${NAME}.sol`][NAME];
  return {
    contract: NAME,
    compiler: solc.version(),
    settings: SETTINGS,
    source_sha256: crypto.createHash("sha256").update(source).digest("hex"),
    abi: contract.abi,
    bytecode: `0x${contract.evm.bytecode.object}`,
    deployed_bytecode: `0x${contract.evm.deployedBytecode.object}`,
  };
}

const text = JSON.stringify(compile(), null, 1) + "\n";
if (!process.argv.includes("--check")) {
  fs.writeFileSync(ARTIFACT, text);
} else if (fs.readFileSync(ARTIFACT, "utf8") !== text) {
  console.error(`${ARTIFACT} is out of date: run node compile.cjs`);
  process.exit(1);
}
