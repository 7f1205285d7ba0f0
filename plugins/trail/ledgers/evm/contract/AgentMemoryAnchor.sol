// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

/// @title The anchors of agents' memories.
/// @notice Holds one hash for each anchored memory or checkpoint, in the order in which they came. The content stays elsewhere.
/// Only the owner, and writers that the owner allowed, can anchor. What was anchored is never changed and never removed.
contract AgentMemoryAnchor {
    struct Anchor {
        bytes32 contentHash;
        bytes32 previousHash; // the agent's anchor before; zero for its first
        uint8 category;
        uint64 timestamp; // seconds since 1970, of the block
        address writer;
    }

    struct Record {
        uint40 position; // from 1 on; 0 where there is none
        uint40 timestamp;
        uint8 category;
        address writer;
    }

    uint8 public constant MILESTONE = 0;
    uint8 public constant DECISION = 1;
    uint8 public constant INCIDENT = 2;
    uint8 public constant CHECKPOINT = 3;
    uint256 public constant MAX_PAGE = 100;

    address public owner;
    address public nextOwner;
    mapping(address writer => bool allowed) public writers;

    mapping(uint256 agentId => bytes32[] hashes) private _hashes;
    mapping(uint256 agentId => mapping(bytes32 contentHash => Record)) private _records;

    event Anchored(
        uint256 indexed agentId,
        bytes32 indexed contentHash,
        bytes32 previousHash,
        uint8 category,
        uint256 position,
        address writer
    );
    event WriterChanged(address indexed writer, bool allowed);
    event OwnershipOffered(address indexed owner, address indexed nextOwner);
    event OwnershipTaken(address indexed before, address indexed owner);

    error NotOwner(address caller);
    error NotWriter(address caller);
    error UnknownCategory(uint8 category);
    error EmptyHash();
    error CategoryDiffers(uint8 anchored, uint8 given);

    modifier onlyOwner() {
        if (msg.sender != owner) revert NotOwner(msg.sender);
        _;
    }

    constructor() {
        owner = msg.sender;
        emit OwnershipTaken(address(0), msg.sender);
    }

    /// @notice Anchors a hash. The same hash in the same category again changes nothing, so a sender may repeat itself.
    /// @param agentId whose memory it is, such as the ERC-8004 id of the agent
    /// @param contentHash keccak256 of the content's CID, as text
    /// @param category one of the constants above
    /// @return position of the anchor among the agent's, from 1 on
    function anchor(uint256 agentId, bytes32 contentHash, uint8 category) external returns (uint256 position) {
        if (msg.sender != owner && !writers[msg.sender]) revert NotWriter(msg.sender);
        if (category > CHECKPOINT) revert UnknownCategory(category);
        if (contentHash == bytes32(0)) revert EmptyHash();
        Record storage record = _records[agentId][contentHash];
        if (record.position != 0) {
            if (record.category != category) revert CategoryDiffers(record.category, category);
            return record.position;
        }
        bytes32[] storage hashes = _hashes[agentId];
        bytes32 previousHash = hashes.length == 0 ? bytes32(0) : hashes[hashes.length - 1];
        hashes.push(contentHash);
        position = hashes.length;
        _records[agentId][contentHash] = Record(uint40(position), uint40(block.timestamp), category, msg.sender);
        emit Anchored(agentId, contentHash, previousHash, category, position, msg.sender);
    }

    /// @notice How many anchors the agent has.
    function anchorCount(uint256 agentId) external view returns (uint256) {
        return _hashes[agentId].length;
    }

    /// @notice The position of this hash among the agent's anchors, from 1 on, and its category; 0 where it is not anchored.
    function positionOf(uint256 agentId, bytes32 contentHash) external view returns (uint256 position, uint8 category) {
        Record storage record = _records[agentId][contentHash];
        return (record.position, record.category);
    }

    /// @notice The agent's last anchor and how many it has. All is zero where there is none.
    function getLatestAnchor(uint256 agentId) external view returns (Anchor memory latest, uint256 totalAnchors) {
        totalAnchors = _hashes[agentId].length;
        if (totalAnchors != 0) latest = _anchorAt(agentId, totalAnchors - 1);
    }

    /// @notice At most `count` of the agent's anchors, and at most MAX_PAGE, oldest first, after leaving out the first `from`.
    function getAnchors(uint256 agentId, uint256 from, uint256 count) external view returns (Anchor[] memory page) {
        uint256 total = _hashes[agentId].length;
        if (from >= total) return page;
        if (count > MAX_PAGE) count = MAX_PAGE;
        if (count > total - from) count = total - from;
        page = new Anchor[](count);
        for (uint256 i = 0; i < count; ++i) page[i] = _anchorAt(agentId, from + i);
    }

    /// @notice Allows an address to anchor, or no longer.
    function setWriter(address writer, bool allowed) external onlyOwner {
        writers[writer] = allowed;
        emit WriterChanged(writer, allowed);
    }

    /// @notice Offers the contract to another owner, who has to take it. The zero address takes the offer back.
    function offerOwnership(address to) external onlyOwner {
        nextOwner = to;
        emit OwnershipOffered(msg.sender, to);
    }

    /// @notice Takes what was offered. The owner before can no longer anchor, unless allowed as a writer.
    function takeOwnership() external {
        if (msg.sender != nextOwner) revert NotOwner(msg.sender);
        emit OwnershipTaken(owner, msg.sender);
        owner = msg.sender;
        nextOwner = address(0);
    }

    function _anchorAt(uint256 agentId, uint256 index) private view returns (Anchor memory) {
        bytes32[] storage hashes = _hashes[agentId];
        Record storage record = _records[agentId][hashes[index]];
        bytes32 previousHash = index == 0 ? bytes32(0) : hashes[index - 1];
        return Anchor(hashes[index], previousHash, record.category, record.timestamp, record.writer);
    }
}
